//! Reports module files from which names can no longer be read.
#![forbid(unsafe_code)]

use super::{
    super::modules::{Fingerprint, Module},
    debug_file::Arena,
};

/// Returns why names cannot be read from a module's file.
pub(super) fn why(Module { path, fingerprint, .. }: &Module) -> Option<&'static str> {
    match Arena::default().map(path).map(Fingerprint::of_file) {
        None => Some("cannot be read"),
        Some(found) if found != Some(*fingerprint) => Some("is another build"),
        Some(_) => None,
    }
}
