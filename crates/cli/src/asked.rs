//! The snapshots that a question of this thread is about.
//!
//! While a thread answers a question, the files with these names are its in-memory snapshots, and the text has neither
//! colours nor the width of a terminal. The commands are not aware of it: they open files and print.

#![forbid(unsafe_code)]

use std::{cell::RefCell, path::Path, sync::Arc};

use memreel_snapshot::Snapshot;

/// A snapshot in memory, and the name that the words of a question have for it.
#[derive(Clone, Debug)]
pub struct Named {
    /// The name in the answer, such as the path of its file.
    pub name: String,
    /// The snapshot.
    pub snapshot: Arc<Snapshot>,
}

thread_local! {
    /// What this thread is answering about; `None` outside a question.
    static ASKED: RefCell<Option<Subject>> = const { RefCell::new(None) };
}

/// The in-memory snapshots of a question, and the columns of a line of its answer; `None` if nothing limits them.
struct Subject {
    snapshots: Vec<Named>,
    width: Option<usize>,
}

/// The width of a text that a program keeps.
const OF_TEXT: usize = 100;

/// The time of a question.
pub(crate) struct Asking {
    /// Nested questions see only the innermost snapshots.
    outer: Option<Subject>,
}

impl Asking {
    /// Starts a question, which ends when the value is dropped.
    pub(crate) fn new(snapshots: Vec<Named>) -> Asking {
        Asking { outer: ASKED.replace(Some(Subject { snapshots, width: Some(OF_TEXT) })) }
    }

    /// Starts a question whose answer is wrapped by its reader.
    pub(crate) fn unwrapped(snapshots: Vec<Named>) -> Asking {
        Asking { outer: ASKED.replace(Some(Subject { snapshots, width: None })) }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        ASKED.set(self.outer.take());
    }
}

/// Returns the snapshots of this thread's question, for threads that work on its answer.
pub(crate) fn snapshots() -> Option<Vec<Named>> {
    ASKED.with_borrow(|asked| Some(asked.as_ref()?.snapshots.clone()))
}

/// Returns whether this thread is answering a question, so that its text goes to no terminal.
pub(crate) fn is_asked() -> bool {
    ASKED.with_borrow(Option::is_some)
}

/// Returns the columns of a line of the answer, if this thread is answering a question; `None` if nothing limits them.
pub(crate) fn width() -> Option<Option<usize>> {
    ASKED.with_borrow(|asked| Some(asked.as_ref()?.width))
}

/// Returns the snapshot with that name, if this thread's question is about it.
pub(crate) fn snapshot(name: &Path) -> Option<Arc<Snapshot>> {
    ASKED.with_borrow(|asked| {
        let named = asked.as_ref()?.snapshots.iter().find(|named| Path::new(&named.name) == name)?;
        Some(named.snapshot.clone())
    })
}
