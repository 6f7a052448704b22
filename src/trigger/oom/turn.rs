//! Decides which failed requests write a snapshot: one at a time, at most one per second.

use std::{
    path::PathBuf,
    process,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use crate::process::fork;

/// How long failed requests write no snapshot after one was written.
const GAP: Duration = Duration::from_secs(1);

/// A snapshot of a failed request.
#[derive(Debug)]
struct Written {
    at: Instant,
    /// `None` if it could not be written.
    path: Option<PathBuf>,
}

/// The turns of failed requests.
#[derive(Debug)]
pub(in crate::trigger) struct OomTurn {
    /// The process in which a thread has its turn; 0 if none does.
    taken_in: AtomicU32,
    last: Arc<Mutex<Option<Written>>>,
}

/// What a failed request may do.
#[derive(PartialEq, Eq, Debug)]
pub(in crate::trigger) enum Turn {
    /// May write a snapshot, and must then call [`OomTurn::end`].
    Write,
    /// Writes nothing: this snapshot was written a moment ago, if it could be.
    Kept(Option<PathBuf>),
    /// Writes nothing: another thread is writing one.
    Elsewhere,
}

impl OomTurn {
    pub(in crate::trigger) fn new() -> OomTurn {
        let last = Arc::default();
        fork::register(fork::Level::Allocator, &last);
        OomTurn { taken_in: AtomicU32::new(0), last }
    }

    pub(in crate::trigger) fn begin(&self) -> Turn {
        if let Some(last) = &*self.last()
            && last.at.elapsed() < GAP
        {
            return Turn::Kept(last.path.clone());
        }
        // A parent's thread that was writing at a fork never finishes in the child.
        let process = process::id();
        if self.taken_in.swap(process, Ordering::Acquire) == process { Turn::Elsewhere } else { Turn::Write }
    }

    pub(in crate::trigger) fn end(&self, path: Option<PathBuf>) {
        *self.last() = Some(Written { at: Instant::now(), path });
        self.taken_in.store(0, Ordering::Release);
    }

    fn last(&self) -> MutexGuard<'_, Option<Written>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_one_in_a_second() {
        let turn = OomTurn::new();
        assert_eq!((turn.begin(), turn.begin()), (Turn::Write, Turn::Elsewhere));
        turn.end(Some("oom.pickle".into()));
        assert_eq!(turn.begin(), Turn::Kept(Some("oom.pickle".into())));
        turn.last().as_mut().unwrap().at -= GAP;
        assert_eq!(turn.begin(), Turn::Write);
    }
}
