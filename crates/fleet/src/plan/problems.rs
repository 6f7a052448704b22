//! What is wrong with the files of a query: it goes on without them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use serde::{Deserialize, Serialize};

/// What is wrong with a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Problem {
    /// It is not in the answer.
    Skipped { file: String, why: String },
    /// It is in the answer, and lacks something.
    Incomplete { file: String, what: String },
}

impl Problem {
    /// Returns the name of a counter for it.
    pub(super) fn counter(&self) -> String {
        // Texts always have a JSON.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The problems of files, collected from all partitions.
#[derive(Debug, Default)]
pub(crate) struct Problems(Mutex<Found>);

#[derive(Debug, Default)]
struct Found {
    /// By file, why it is not in the answer.
    broken: BTreeMap<String, String>,
    /// What is missing in files that are in the answer.
    notes: BTreeSet<String>,
    read: BTreeSet<String>,
    /// How many files other machines have read, those that are broken not counted.
    n_read_elsewhere: u64,
}

impl Problems {
    /// Keeps a problem.
    pub(crate) fn add(&self, problem: Problem) {
        self.with(|found| match problem {
            Problem::Skipped { file, why } => drop(found.broken.insert(file, why)),
            Problem::Incomplete { file, what } => drop(found.notes.insert(format!("{file}: {what}"))),
        });
    }

    /// Keeps the problem that a counter of an executor names; other counters are no problems.
    pub(crate) fn add_counter(&self, name: &str) {
        if let Ok(problem) = serde_json::from_str(name) {
            self.add(problem);
        }
    }

    /// Keeps how many files executors have read.
    pub(crate) fn add_read_elsewhere(&self, n_files: u64) {
        self.with(|found| found.n_read_elsewhere += n_files);
    }

    /// Keeps that a file was read.
    pub(crate) fn read(&self, file: &str) {
        self.with(|found| found.read.insert(file.to_owned()));
    }

    /// Returns a line for each problem, those of broken files first.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.with(|found| {
            let broken = found.broken.iter().map(|(file, why)| format!("{file}: skipped: {why}"));
            broken.chain(found.notes.iter().cloned()).collect()
        })
    }

    /// Returns whether a file is broken.
    pub(crate) fn is_broken(&self, file: &str) -> bool {
        self.with(|found| found.broken.contains_key(file))
    }

    /// Returns whether files were broken and none was read.
    pub(crate) fn are_all_broken(&self) -> bool {
        self.with(|found| {
            let is_none_read = found.n_read_elsewhere == 0;
            !found.broken.is_empty()
                && is_none_read
                && found.read.iter().all(|file| found.broken.contains_key(file))
        })
    }

    /// Returns how many files were read or found to be broken.
    pub(crate) fn n_files(&self) -> usize {
        self.with(|found| {
            found.read.len() + found.broken.keys().filter(|file| !found.read.contains(*file)).count()
        })
    }

    fn with<T>(&self, look: impl FnOnce(&mut Found) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}
