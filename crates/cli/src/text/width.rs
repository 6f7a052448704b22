//! The width of a line: the terminal's, or `COLUMNS` if the output goes elsewhere.

#![forbid(unsafe_code)]

use std::{
    env,
    io::{self, IsTerminal},
    sync::LazyLock,
};

use console::Term;

use crate::asked;

/// Texts are not shortened for a narrower terminal, which then wraps lines itself.
const LEAST: usize = 40;

/// The width of a terminal that does not report one.
const USUAL: usize = 80;

static WIDTH: LazyLock<Option<usize>> = LazyLock::new(|| {
    let columns = env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).filter(|n| *n > 0);
    let width = match io::stdout().is_terminal() {
        true => Some(terminal().or(columns).unwrap_or(USUAL)),
        false => columns,
    };
    width.map(|width| width.max(LEAST))
});

fn terminal() -> Option<usize> {
    Term::stdout().size_checked().map(|(_, columns)| usize::from(columns))
}

/// Returns the number of columns that a line may take; `None` if nothing limits it, as in a pipe without `COLUMNS`.
pub(crate) fn width() -> Option<usize> {
    asked::width().unwrap_or(*WIDTH)
}

/// Returns the number of columns that are left after an indent, or `usize::MAX` if nothing limits a line. At least 24
/// are left, so that narrow terminals show something.
pub(crate) fn width_left(indent: usize) -> usize {
    width().map_or(usize::MAX, |width| width.saturating_sub(indent).max(24))
}
