//! The files of modules that names can no longer be read from.
#![forbid(unsafe_code)]

use std::path::Path;

use super::{
    super::modules::{Fingerprint, Module, PastModules},
    debug_file::Arena,
};

/// Calls `look` with the path of each module whose file is not the one that was loaded, and why.
pub(crate) fn for_each_missing(past: &PastModules, mut look: impl FnMut(&Path, &'static str)) {
    for module in past.modules().filter(|module| module.path.is_absolute()) {
        let why = past.names().map_or_else(|| why(module), |names| names.missing(module));
        why.into_iter().for_each(|why| look(&module.path, why));
    }
}

/// Returns why names cannot be read from a module's file.
pub(super) fn why(Module { path, fingerprint, .. }: &Module) -> Option<&'static str> {
    match Arena::default().map(path).map(Fingerprint::of_file) {
        None => Some("cannot be read"),
        Some(found) if found != Some(*fingerprint) => Some("is another build"),
        Some(_) => None,
    }
}
