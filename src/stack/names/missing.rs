//! The files of modules that names can no longer be read from.
#![forbid(unsafe_code)]

use std::path::Path;

use super::{
    super::modules::{Fingerprint, Module, PastModules},
    debug_file::Arena,
};

/// Calls `look` with the path of each module whose file is not the one that was loaded, and why.
pub(crate) fn for_each_missing(past: &PastModules, mut look: impl FnMut(&Path, &'static str)) {
    for Module { path, fingerprint, .. } in past.modules().filter(|module| module.path.is_absolute()) {
        match Arena::default().map(path).map(Fingerprint::of_file) {
            None => look(path, "cannot be read"),
            Some(found) if found != Some(*fingerprint) => look(path, "is another build"),
            Some(_) => {}
        }
    }
}
