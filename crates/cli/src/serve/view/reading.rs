//! Reads a file, showing a first picture of it meanwhile.

#![forbid(unsafe_code)]

use std::{
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use memreel_snapshot::{
    Action, Snapshot,
    model::TraceEntry,
    pickle::{self, Reading},
};
use serde_json::{Value, json};

use super::recording::Recording;
use crate::{
    failure::Failure,
    input::{name, parse, read_unmappable, recovered, unreadable},
};

/// The most points of the first picture.
const N_POINTS: usize = 1000;

/// Reads the files, one after the other.
pub(super) fn read<'a>(sources: &'a [Source], recordings: &[OnceLock<Recording<'a>>]) {
    for (source, recording) in sources.iter().zip(recordings) {
        read_one(source, recording, &|| {});
    }
}

/// Reads a file, unless it has failed. Calls `heard` whenever more of it is read.
pub(super) fn read_one<'a>(source: &'a Source, recording: &OnceLock<Recording<'a>>, heard: &dyn Fn()) {
    if source.failure().is_some() {
        return;
    }
    let defect = || "reading failed; this is a bug in memreel".to_owned();
    // The other files are still shown.
    let read = panic::catch_unwind(AssertUnwindSafe(|| {
        source.read(heard);
        let Some(Ok(snapshot)) = source.snapshot.get() else { return };
        recording.get_or_init(|| Recording::new(snapshot));
    }));
    if read.is_err() {
        source.fail(defect());
    }
}

/// A file of the command line.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) name: String,
    /// The snapshot, or why there is none.
    pub(super) snapshot: OnceLock<Result<Arc<Snapshot>, String>>,
    /// Why the snapshot cannot be shown.
    failed: OnceLock<String>,
    far: Mutex<Far>,
}

impl Source {
    pub(super) fn new(path: &Path) -> Source {
        Source {
            path: path.to_owned(),
            name: name(path),
            snapshot: OnceLock::new(),
            failed: OnceLock::new(),
            far: Mutex::default(),
        }
    }

    /// A file that is read.
    #[cfg(test)]
    pub(super) fn of(name: &str, snapshot: Snapshot) -> Source {
        let source = Source::new(Path::new(name));
        let _is_first = source.snapshot.set(Ok(Arc::new(snapshot)));
        source
    }

    /// Reads the file.
    fn read(&self, heard: &dyn Fn()) {
        let read = self.load(heard).map(Arc::new).map_err(|failure| failure.to_string());
        let _is_first = self.snapshot.set(read);
    }

    /// Keeps why the file cannot be shown.
    pub(super) fn fail(&self, why: String) {
        let _is_first = self.failed.set(why);
    }

    /// Returns why the file cannot be shown.
    pub(super) fn failure(&self) -> Option<&String> {
        self.failed.get().or_else(|| self.snapshot.get()?.as_ref().err())
    }

    fn load(&self, heard: &dyn Fn()) -> Result<Snapshot, Failure> {
        if let Some(tape) = recovered(&self.path)? {
            return Ok(tape.snapshot());
        }
        if let Some(bytes) = read_unmappable(&self.path)? {
            return parse(&bytes);
        }
        let watch = |reading: Reading<'_>| {
            self.far().take(&reading);
            heard();
        };
        pickle::load_watched(&self.path, &watch).map_err(unreadable)
    }

    fn far(&self) -> std::sync::MutexGuard<'_, Far> {
        self.far.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how much of the file is read, from 0 to 1.
    pub(super) fn part(&self) -> f64 {
        self.far().part
    }

    /// Returns a picture of what is read.
    pub(super) fn coarse(&self) -> Value {
        let far = self.far();
        json!({ "n_events": far.n_entries, "points": far.points.iter().map(|(_, point)| point).collect::<Vec<_>>() })
    }
}

/// How far a file is read, and the figures so far, relative to those at the start.
#[derive(Default)]
struct Far {
    part: f64,
    n_entries: usize,
    active_bytes: i128,
    reserved_bytes: i128,
    /// The most since the last point, by the number of entries.
    points: Vec<(usize, (f64, f64, f64))>,
    /// The number of entries between two points.
    step: usize,
}

impl Far {
    #[allow(clippy::cast_precision_loss)]
    fn take(&mut self, reading: &Reading<'_>) {
        self.part = reading.read_bytes as f64 / reading.n_bytes.max(1) as f64;
        let begin = self.n_entries.min(reading.entries.len());
        self.step = self.step.max(256);
        for entry in &reading.entries[begin..] {
            self.n_entries += 1;
            self.add(entry);
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn add(&mut self, entry: &TraceEntry) {
        let bytes = i128::from(entry.size);
        match entry.action {
            Some(Action::Alloc) => self.active_bytes += bytes,
            Some(Action::FreeCompleted) => self.active_bytes -= bytes,
            Some(Action::SegmentAlloc | Action::SegmentMap) => self.reserved_bytes += bytes,
            Some(Action::SegmentFree | Action::SegmentUnmap) => self.reserved_bytes -= bytes,
            _ => {}
        }
        let figures = (self.part, self.active_bytes as f64, self.reserved_bytes as f64);
        match self.points.last_mut() {
            Some((begun, point)) if self.n_entries < *begun + self.step => {
                *point = (figures.0, point.1.max(figures.1), point.2.max(figures.2));
            }
            _ => self.points.push((self.n_entries, figures)),
        }
        if self.points.len() > N_POINTS {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.step *= 2;
        let pairs = self.points.chunks(2).map(|pair| {
            let (begun, first) = pair[0];
            let last = pair.last().map_or(first, |(_, point)| *point);
            (begun, (last.0, first.1.max(last.1), first.2.max(last.2)))
        });
        self.points = pairs.collect();
    }
}
