//! The page that a command prints on: where its text goes, how wide a line is, and whether it has colours.

#![forbid(unsafe_code)]

use std::{
    env,
    io::{self, BufWriter, IsTerminal, Stdout, Write},
};

use anstyle::{AnsiColor, Style};
use console::Term;

/// Texts are not shortened for a narrower terminal, which then wraps lines itself.
const LEAST: usize = 40;

/// The width of a terminal that does not report one.
const USUAL: usize = 80;

/// What a command prints on. One type for all places, so that every command is compiled once.
pub(crate) struct Page {
    out: Out,
    /// The columns that a line may take; `None` if nothing limits it.
    width: Option<usize>,
    has_colours: bool,
}

enum Out {
    Standard(BufWriter<Stdout>),
    Memory(Vec<u8>),
}

impl Page {
    /// Returns the page on standard output: as wide as the terminal, or `COLUMNS` if the output goes elsewhere, and in
    /// colours if the terminal shows them. `NO_COLOR` is described at <https://no-color.org>.
    pub(crate) fn standard() -> Page {
        let is_terminal = io::stdout().is_terminal();
        let columns = env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).filter(|n| *n > 0);
        let width = if is_terminal { Some(terminal().or(columns).unwrap_or(USUAL)) } else { columns };
        let is_refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = env::var_os("TERM").is_some_and(|value| value == "dumb");
        Page {
            out: Out::Standard(BufWriter::with_capacity(1 << 16, io::stdout())),
            width: width.map(|width| width.max(LEAST)),
            has_colours: is_terminal && !is_refused && !is_dumb,
        }
    }

    /// Returns a page in memory, without colours, with lines of `width` columns; `None` if its reader wraps them.
    pub(crate) fn in_memory(width: Option<usize>) -> Page {
        Page { out: Out::Memory(Vec::new()), width, has_colours: false }
    }

    /// Returns an empty page in memory for a part of this one, in the same width and colours.
    pub(crate) fn part(&self) -> Page {
        Page { out: Out::Memory(Vec::new()), ..*self }
    }

    /// Returns whether what is printed stays in memory, as for a question.
    pub(crate) fn is_in_memory(&self) -> bool {
        matches!(self.out, Out::Memory(_))
    }

    /// Returns what was printed to memory; of standard output, nothing.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        match self.out {
            Out::Standard(_) => Vec::new(),
            Out::Memory(bytes) => bytes,
        }
    }

    /// Returns the number of columns that a line may take; `None` if nothing limits it, as in a pipe without `COLUMNS`.
    pub(crate) fn width(&self) -> Option<usize> {
        self.width
    }

    /// Returns the number of columns that are left after an indent, or `usize::MAX` if nothing limits a line. At least 24
    /// are left, so that narrow terminals show something.
    pub(crate) fn width_left(&self, indent: usize) -> usize {
        self.width.map_or(usize::MAX, |width| width.saturating_sub(indent).max(24))
    }

    /// Returns the style of headings and of the figure that was asked for; `{:#}` ends it.
    pub(crate) fn bold(&self) -> Style {
        self.only_in_colours(Style::new().bold())
    }

    /// Returns the style of bad news.
    pub(crate) fn red(&self) -> Style {
        self.only_in_colours(Style::new().bold().fg_color(Some(AnsiColor::Red.into())))
    }

    /// Returns the style of what can be skipped.
    pub(crate) fn faint(&self) -> Style {
        self.only_in_colours(Style::new().dimmed())
    }

    fn only_in_colours(&self, style: Style) -> Style {
        if self.has_colours { style } else { Style::new() }
    }
}

fn terminal() -> Option<usize> {
    Term::stdout().size_checked().map(|(_, columns)| usize::from(columns))
}

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.out {
            Out::Standard(out) => out.write(bytes),
            Out::Memory(memory) => memory.write(bytes),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.out {
            Out::Standard(out) => out.write_all(bytes),
            Out::Memory(memory) => memory.write_all(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.out {
            Out::Standard(out) => out.flush(),
            Out::Memory(_) => Ok(()),
        }
    }
}
