//! A question of a program that has its snapshots in memory, asked in the words of the command line.
//!
//! While a thread asks, the files of these names are the snapshots that it gave, and the text has neither colours nor the
//! width of a terminal. The commands do not notice: they open files and print.

#![forbid(unsafe_code)]

use std::{cell::RefCell, ffi::OsString, path::Path, sync::Arc};

use memreel::Snapshot;

use crate::{dispatch::parsed, exit::Exit, failure::Failure, printed::Printed, program::program};

/// A snapshot in memory, and the name that the words of a question have for it.
#[derive(Clone, Debug)]
pub struct Named {
    /// The name in the answer, such as the path of its file.
    pub name: String,
    /// The snapshot.
    pub snapshot: Arc<Snapshot>,
}

/// What a command printed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The exit status that the program would have.
    pub status: u8,
    /// What it would print on standard output.
    pub text: String,
}

/// Why a question has no answer.
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

/// Runs a command of the program on snapshots that are in memory: `words` are those behind `memreel`, with the names of
/// the snapshots where the command line has files.
///
/// # Errors
/// The words are no command, or the command has no answer. The message does not begin with `memreel:`.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use memreel::Snapshot;
/// use memreel_cli::{Named, ask};
///
/// let mine = Named { name: "mine".to_owned(), snapshot: Arc::new(Snapshot::default()) };
/// let answer = ask(&[mine], &["top", "mine"]).unwrap();
/// assert_eq!(answer.status, 0);
/// ```
pub fn ask(snapshots: &[Named], words: &[&str]) -> Result<Answer, Refusal> {
    let all = std::iter::once("memreel").chain(words.iter().copied()).map(OsString::from).collect();
    let program = program(Vec::new());
    let command = parsed(all, &program).map_err(|error| Refusal {
        status: u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8),
        message: error.render().to_string().trim_start_matches("error: ").trim_end().to_owned(),
    })?;
    let mut out = Printed::Memory(Vec::new());
    let _asking = Asking::new(snapshots.to_vec());
    let exit = command(&program, &mut out)?;
    Ok(Answer { status: exit as u8, text: String::from_utf8_lossy(&out.into_bytes()).into_owned() })
}

thread_local! {
    /// The snapshots of the question that this thread asks; `None` if it asks none.
    static ASKED: RefCell<Option<Vec<Named>>> = const { RefCell::new(None) };
}

/// The time of a question.
struct Asking {
    /// A question inside another has the inner one's snapshots alone.
    outer: Option<Vec<Named>>,
}

impl Asking {
    fn new(snapshots: Vec<Named>) -> Asking {
        Asking { outer: ASKED.replace(Some(snapshots)) }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        ASKED.set(self.outer.take());
    }
}

/// Whether this thread asks a question, so that its text goes to no terminal.
pub(crate) fn is_asked() -> bool {
    ASKED.with_borrow(Option::is_some)
}

/// Returns the snapshot of that name, if this thread asks about it.
pub(crate) fn snapshot(name: &Path) -> Option<Arc<Snapshot>> {
    ASKED.with_borrow(|asked| {
        let named = asked.as_ref()?.iter().find(|named| Path::new(&named.name) == name)?;
        Some(named.snapshot.clone())
    })
}
