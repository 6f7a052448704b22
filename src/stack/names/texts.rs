//! Keeps one copy of each text, however many frames share it.
#![forbid(unsafe_code)]

use std::sync::Arc;

use rustc_hash::FxHashSet;

/// The names and files of frames: a thousand frames share a few files.
#[derive(Debug, Default)]
pub(super) struct Texts(FxHashSet<Arc<str>>);

impl Texts {
    /// Returns the one copy of a text.
    pub(super) fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(shared) = self.0.get(text) {
            return shared.clone();
        }
        let shared: Arc<str> = text.into();
        self.0.insert(shared.clone());
        shared
    }
}
