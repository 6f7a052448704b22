//! Bold, red and faint, on a terminal that wants them and nowhere else.

use std::{
    env,
    io::{self, IsTerminal},
    sync::LazyLock,
};

use anstyle::{AnsiColor, Style};

/// Asked once: standard output does not become a terminal on the way. `NO_COLOR` is <https://no-color.org>.
static IS_ON: LazyLock<bool> = LazyLock::new(|| {
    let is_refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_some_and(|value| value == "dumb");
    io::stdout().is_terminal() && !is_refused && !is_dumb
});

fn only_if_on(style: Style) -> Style {
    if *IS_ON { style } else { Style::new() }
}

/// For headings and the figure that was asked for; `{:#}` ends it.
pub(crate) fn bold() -> Style {
    only_if_on(Style::new().bold())
}

/// For bad news.
pub(crate) fn red() -> Style {
    only_if_on(Style::new().bold().fg_color(Some(AnsiColor::Red.into())))
}

/// For what can be skipped.
pub(crate) fn faint() -> Style {
    only_if_on(Style::new().dimmed())
}
