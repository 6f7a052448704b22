//! Bold, red and faint text, only on a terminal that shows them.

#![forbid(unsafe_code)]

use std::{
    env,
    io::{self, IsTerminal},
    sync::LazyLock,
};

use anstyle::{AnsiColor, Style};

use crate::asked::is_asked;

/// Whether standard output takes colours. `NO_COLOR` is described at <https://no-color.org>.
static IS_ON: LazyLock<bool> = LazyLock::new(|| {
    let is_refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_some_and(|value| value == "dumb");
    io::stdout().is_terminal() && !is_refused && !is_dumb
});

fn only_if_on(style: Style) -> Style {
    if *IS_ON && !is_asked() { style } else { Style::new() }
}

/// The style of headings and of the figure that was asked for; `{:#}` ends it.
pub(crate) fn bold() -> Style {
    only_if_on(Style::new().bold())
}

/// The style of bad news.
pub(crate) fn red() -> Style {
    only_if_on(Style::new().bold().fg_color(Some(AnsiColor::Red.into())))
}

/// The style of what can be skipped.
pub(crate) fn faint() -> Style {
    only_if_on(Style::new().dimmed())
}
