//! The trigger sets of one reel.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    process::fork,
    trigger::{
        oom::{
            files::OomFiles,
            on_oom::{OnFailure, SnapshotOf},
            turn::{OomTurn, Turn},
        },
        when::armed::Armed,
    },
};
use memreel_snapshot::words::{OutOfMemory, Result};

/// The trigger sets of one reel, until it is dropped.
#[derive(Debug)]
pub(crate) struct Sets {
    all: Arc<Mutex<Vec<Set>>>,
    /// For failed requests that write no snapshot.
    verdicts: OomTurn,
}

#[derive(Clone, Debug)]
enum Set {
    Triggers(Arc<Armed>),
    OnOom(Arc<OomFiles>),
}

impl Sets {
    pub(crate) fn new() -> Sets {
        let all = Arc::default();
        fork::register(fork::Level::Allocator, &all);
        Sets { all, verdicts: OomTurn::new() }
    }

    pub(crate) fn add(&self, armed: Arc<Armed>) {
        self.push(Set::Triggers(armed));
    }

    pub(crate) fn add_oom_files(&self, files: Arc<OomFiles>) {
        self.push(Set::OnOom(files));
    }

    fn push(&self, set: Set) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(set);
    }

    /// Returns whether to write a snapshot when the reel is dropped.
    pub(crate) fn is_on_exit(&self) -> bool {
        self.armed().iter().any(|armed| armed.is_on_exit())
    }

    /// Writes the exit snapshots of a reel that is dropped before the exit.
    pub(crate) fn dump_at_drop(&self, save: &dyn Fn(&Path) -> Result<()>) {
        self.armed().iter().filter(|armed| armed.is_on_exit()).for_each(|armed| armed.dump_at_drop(save));
    }

    /// Adds the verdict and the snapshots of a failed request to its figures.
    ///
    /// A request that writes a snapshot has a verdict. Of the others, one per second has: a program that retries again
    /// and again must not become slow. What another thread's snapshot of this moment contains is not written twice.
    pub(crate) fn failed(&self, figures: &mut OutOfMemory, on_failure: &OnFailure<'_>) {
        let mut is_in_another = false;
        for set in self.all() {
            let snapshot_of = match set {
                Set::Triggers(armed) if armed.is_on_oom() => armed.dump_oom(figures, on_failure),
                Set::Triggers(_) => continue,
                Set::OnOom(files) => files.save(figures, on_failure),
            };
            is_in_another |= snapshot_of == SnapshotOf::Another;
        }
        if figures.verdict.is_none() && !is_in_another && self.verdicts.begin() == Turn::Write {
            on_failure.explain(figures);
            self.verdicts.end(None);
        }
    }

    fn armed(&self) -> Vec<Arc<Armed>> {
        let of = |set| match set {
            Set::Triggers(armed) => Some(armed),
            Set::OnOom(_) => None,
        };
        self.all().into_iter().filter_map(of).collect()
    }

    fn all(&self) -> Vec<Set> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
