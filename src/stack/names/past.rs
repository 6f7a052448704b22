//! Names the addresses of another process, whose tape was read.
#![forbid(unsafe_code)]

use std::path::Path;

use super::{super::modules::PastModules, missing, shared::SharedNames};

/// The modules of the process, and the names that the processes of its run share.
#[derive(Debug)]
pub(crate) struct Past {
    pub(super) modules: PastModules,
    pub(super) names: Option<SharedNames>,
}

impl Past {
    pub(crate) fn new(modules: PastModules, names: Option<SharedNames>) -> Past {
        Past { modules, names }
    }

    /// Calls `look` with the path of each module whose file is not the one that was loaded, and why.
    pub(crate) fn for_each_missing(&self, mut look: impl FnMut(&Path, &'static str)) {
        for module in self.modules.modules().filter(|module| module.path.has_root()) {
            let why = self.names.as_ref().map_or_else(|| missing::why(module), |names| names.missing(module));
            why.into_iter().for_each(|why| look(&module.path, why));
        }
    }
}
