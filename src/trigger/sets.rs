//! The triggers of one reel.
#![forbid(unsafe_code)]

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use super::armed::Armed;
use crate::error::Result;
#[cfg(not(loom))]
use crate::fork;

/// The triggers of one reel, in force until it is dropped.
#[derive(Debug)]
pub(crate) struct Sets {
    all: Arc<Mutex<Vec<Arc<Armed>>>>,
}

impl Sets {
    pub(crate) fn new() -> Sets {
        let all = Arc::default();
        #[cfg(not(loom))]
        fork::register(fork::Level::Allocator, &all);
        Sets { all }
    }

    pub(crate) fn add(&self, armed: Arc<Armed>) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(armed);
    }

    /// Returns whether a snapshot is to be written when the reel is dropped.
    pub(crate) fn is_on_exit(&self) -> bool {
        self.all().iter().any(|armed| armed.is_on_exit())
    }

    /// Writes the snapshots of the exit, of a reel that is dropped before it.
    pub(crate) fn dump_at_drop(&self, save: &dyn Fn(&Path) -> Result<()>) {
        self.all().iter().filter(|armed| armed.is_on_exit()).for_each(|armed| armed.dump_at_drop(save));
    }

    fn all(&self) -> Vec<Arc<Armed>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
