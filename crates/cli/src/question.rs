//! A question of a program about in-memory snapshots, in the words of the command line.

#![forbid(unsafe_code)]

use std::{ffi::OsString, iter};

use crate::{
    dispatch::parsed,
    exit::Exit,
    failure::Failure,
    input::{NamedSnapshot, Opener},
    row::{Maker, Program},
    text::Page,
};

/// What a command printed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The exit status that the program would have.
    pub status: u8,
    /// What it would print on standard output.
    pub text: String,
}

/// Why a question could not be answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The exit status that the program would have.
    pub status: u8,
    /// What it would print on standard error.
    pub message: String,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        match failure {
            Failure::Message(exit, message) => Refusal { status: exit as u8, message },
            Failure::Output(error) => Refusal { status: Exit::Unreadable as u8, message: error.to_string() },
        }
    }
}

/// Runs a command of a program on in-memory snapshots: `words` are those after `memreel`, with the names of the snapshots
/// in place of files. The lines of the text have `width` columns; `None` if its reader wraps them.
pub(crate) fn answered(
    make: Maker,
    snapshots: Vec<NamedSnapshot>,
    words: &[&str],
    width: Option<usize>,
) -> Result<Answer, Refusal> {
    let program = &Program { opener: Opener::Question(snapshots), ..make(Vec::new()) };
    let all = iter::once("memreel").chain(words.iter().copied()).map(OsString::from).collect();
    let command = parsed(all, program).map_err(|error| Refusal {
        status: u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8),
        message: error.render().to_string().trim_start_matches("error: ").trim_end().to_owned(),
    })?;
    let mut out = Page::in_memory(width);
    let exit = command(program, &mut out)?;
    Ok(Answer { status: exit as u8, text: String::from_utf8_lossy(&out.into_bytes()).into_owned() })
}
