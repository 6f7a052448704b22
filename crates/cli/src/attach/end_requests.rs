//! What the user of `memreel attach` requested: a file, and an end by Ctrl-C.

#![forbid(unsafe_code)]

use std::{
    fs::File,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use memreel_snapshot::pickle;
use signal_hook::{
    consts::signal::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::failure::Failure;

/// How often the user requested the end.
#[derive(Clone, Debug, Default)]
pub(super) struct EndRequests(Arc<AtomicUsize>);

impl EndRequests {
    /// Handles the signals that end programs, from now on.
    pub(super) fn new() -> Result<EndRequests, Failure> {
        let asked = EndRequests::default();
        let count = asked.0.clone();
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            signals.forever().for_each(|_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        })?;
        Ok(asked)
    }

    pub(super) fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The file of the snapshot, which is written completely or not at all.
#[derive(Debug)]
pub(super) struct Output(PathBuf);

impl Output {
    pub(super) fn of(path: PathBuf) -> Result<Output, Failure> {
        if path.is_dir() {
            return Err(Failure::usage(format!("{} is a folder; give a file", path.display())));
        }
        Ok(Output(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Calls `fill` with a new file. The file gets its name if `fill` returns that it is complete.
    pub(super) fn fill(
        &self,
        fill: impl FnOnce(&mut File) -> Result<bool, Failure>,
    ) -> Result<bool, Failure> {
        let mut filled = None;
        let replaced = pickle::replace(&self.0, |file| match filled.insert(fill(file)) {
            Ok(true) => Ok(()),
            _ => Err(ErrorKind::Interrupted.into()),
        });
        match (filled, replaced) {
            (None | Some(Ok(true)), Err(error)) => Err(Failure::unwritable(&self.0, error)),
            (filled, _) => filled.unwrap_or(Ok(false)),
        }
    }
}
