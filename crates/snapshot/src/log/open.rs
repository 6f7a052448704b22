//! A message that may continue on the next lines, because a terminal wrapped it or its program prints it on several.

use super::{
    form::is_complete,
    line::Line,
    message::{LoggedCall, Message, Program},
    parse,
};

/// The most characters of a message, and the most lines after its first.
const MAX_TEXT: usize = 8 << 10;
const MAX_LINES: usize = 16;

/// A message whose end was not seen yet.
#[derive(Debug)]
pub(super) struct Open {
    program: Program,
    line: u64,
    rank: Option<String>,
    before: String,
    calls: Vec<LoggedCall>,
    text: String,
    /// The bytes of its first line.
    n_first: usize,
    n_lines: usize,
}

impl Open {
    pub(super) fn new(program: Program, line: u64, rank: Option<String>, before: &str, text: &str) -> Open {
        let text: String = text.chars().take(MAX_TEXT).collect();
        let n_first = text.len();
        Open { program, line, rank, before: before.to_owned(), calls: Vec::new(), text, n_first, n_lines: 0 }
    }

    /// Adds the calls of its traceback.
    pub(super) fn with_calls(self, calls: Vec<LoggedCall>) -> Open {
        Open { calls, ..self }
    }

    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Returns whether it reports that memory was refused, with or without figures: JAX has other errors of this name.
    pub(super) fn is_refusal(&self) -> bool {
        self.program == Program::Xla && self.text.contains("ut of memory")
    }

    /// Returns whether nothing more belongs to it.
    pub(super) fn is_complete(&self) -> bool {
        is_complete(self.program, &self.text)
    }

    /// Returns whether a line is by the same rank.
    pub(super) fn is_of(&self, rank: Option<&str>) -> bool {
        self.rank.as_deref() == rank
    }

    /// Adds a line. Returns whether it belongs to the message and the message continues.
    pub(super) fn add(&mut self, line: &Line) -> bool {
        const ENDS: [&str; 5] =
            ["Traceback", "File \"", "During handling", "The above exception", "Exception"];
        let is_end = line.text.is_empty() || ENDS.iter().any(|end| line.text.starts_with(end));
        if is_end || self.n_lines == MAX_LINES || self.text.len() + line.text.len() > MAX_TEXT {
            return false;
        }
        self.n_lines += 1;
        self.text.push(' ');
        self.text.push_str(&line.text);
        !self.is_complete()
    }

    /// Returns the message; `None` if it has no figure of a request.
    pub(super) fn close(self) -> Option<Message> {
        let mut message = parse::message(self.program, self.line, &self.before, &self.text, self.n_first)?;
        message.rank = self.rank;
        message.calls = self.calls;
        Some(message)
    }
}
