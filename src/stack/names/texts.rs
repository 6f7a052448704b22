//! Equal texts are one text.
#![forbid(unsafe_code)]

use std::sync::Arc;

use rustc_hash::FxHashSet;

/// Names and files of frames: a thousand frames have a few files between them.
#[derive(Debug, Default)]
pub(super) struct Texts(FxHashSet<Arc<str>>);

impl Texts {
    pub(super) fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(shared) = self.0.get(text) {
            return shared.clone();
        }
        let shared: Arc<str> = text.into();
        self.0.insert(shared.clone());
        shared
    }
}
