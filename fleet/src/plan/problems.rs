//! What is wrong with the files of a query: it goes on without them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

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
}

impl Problems {
    /// Keeps why a file is not in the answer.
    pub(crate) fn broken(&self, file: &str, why: String) {
        self.with(|found| found.broken.insert(file.to_owned(), why));
    }

    /// Keeps what is missing in a file.
    pub(crate) fn note(&self, file: &str, what: &str) {
        self.with(|found| found.notes.insert(format!("{file}: {what}")));
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
            !found.broken.is_empty() && found.read.iter().all(|file| found.broken.contains_key(file))
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
