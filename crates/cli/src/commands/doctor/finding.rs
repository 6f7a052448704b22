//! A finding about a part of memreel on this machine.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use serde::Serialize;
use serde_json::json;

use crate::text::{Page, clean, print_wrapped};

/// Whether a part works.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Works,
    DoesNotWork,
    NotKnown,
}

/// A part, whether it works, and why.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) part: &'static str,
    pub(super) state: State,
    /// Whether `memreel record` needs it.
    pub(super) is_needed: bool,
    pub(super) why: String,
    pub(super) what_to_do: Option<String>,
}

impl Finding {
    pub(super) fn works(part: &'static str, why: impl Into<String>) -> Finding {
        Finding { part, state: State::Works, is_needed: false, why: why.into(), what_to_do: None }
    }

    pub(super) fn fails(part: &'static str, why: impl Into<String>, what_to_do: &str) -> Finding {
        let what_to_do = Some(what_to_do.to_owned()).filter(|text| !text.is_empty());
        Finding { state: State::DoesNotWork, what_to_do, ..Finding::works(part, why) }
    }

    /// Returns the finding of a message with advice after its reason.
    pub(super) fn told(part: &'static str, message: &str) -> Finding {
        let (why, what_to_do) = message.split_once("; ").unwrap_or((message, ""));
        Finding::fails(part, why, what_to_do)
    }

    pub(super) fn unknown(part: &'static str, why: impl Into<String>, what_to_do: &str) -> Finding {
        Finding { state: State::NotKnown, ..Finding::fails(part, why, what_to_do) }
    }

    pub(super) fn needed(self) -> Finding {
        Finding { is_needed: true, ..self }
    }

    /// Prints it in words.
    pub(super) fn print(&self, out: &mut Page) -> io::Result<()> {
        let (state, bold) = (self.words(), out.bold());
        let line = format!("{bold}{:15}{bold:#} {}: {}", state, self.part, self.why);
        print_wrapped(&clean(&line), INDENT.len(), out)?;
        if let Some(what_to_do) = &self.what_to_do {
            let line = format!("{INDENT}what to do: {what_to_do}");
            print_wrapped(&clean(&line), INDENT.len(), out)?;
        }
        Ok(())
    }

    fn words(&self) -> &'static str {
        match self.state {
            State::Works => "works",
            State::DoesNotWork if self.is_needed => "does not work",
            State::DoesNotWork => "not available",
            State::NotKnown => "unknown",
        }
    }

    /// Prints it as a line of JSON.
    pub(super) fn print_json(&self, out: &mut Page) -> io::Result<()> {
        let Finding { part, state, is_needed, why, what_to_do } = self;
        let line = json!({"part": part, "state": state, "is_needed": is_needed, "why": why, "what_to_do": what_to_do});
        writeln!(out, "{line}")
    }
}

/// What is below the reason.
const INDENT: &str = "                ";
