//! An active set of triggers: writes snapshots of one source, and remembers when the next is due.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use crate::{
    process::unwritten,
    trigger::{
        cause::Cause,
        files::{
            all::Files,
            dumping::Dumping,
            template::Template,
            verdict::{self, Existing},
        },
        oom::{
            on_oom::{OnFailure, SnapshotOf},
            turn::{OomTurn, Turn},
        },
        signal_number::Signal,
        when::triggers::Triggers,
    },
};
use memreel_snapshot::words::{Error, OomVerdict, OutOfMemory, Result};

/// The source of snapshots. Both functions return `None` once it is gone.
pub(crate) struct Source {
    /// Writes a snapshot to a path.
    pub(crate) save: Box<Save>,
    /// Returns the bytes that triggers watch.
    pub(crate) levels: Box<dyn Fn() -> Option<Levels> + Send + Sync>,
}

type Save = dyn Fn(&Path) -> Option<Result<()>> + Send + Sync;

/// The bytes that triggers watch.
///
/// ```
/// use memreel::trigger::Levels;
///
/// let levels = Levels { allocated_bytes: 3 << 30, peak_bytes: 1 << 30 };
/// assert_eq!(Levels::default().allocated_bytes, 0);
/// # let _ = levels;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Levels {
    /// The bytes of all allocations so far, on all devices.
    pub allocated_bytes: u64,
    /// The highest peak of allocated bytes of a device.
    pub peak_bytes: u64,
}

/// How often bytes are checked.
const POLL: Duration = Duration::from_millis(10);

/// An active set of triggers.
pub(crate) struct Armed {
    triggers: Triggers,
    files: Files,
    source: Source,
    since: Instant,
    /// When the next interval ends, in milliseconds after `since`.
    next_ms: AtomicU64,
    /// The sum of allocations at the last multiple of [`Triggers::every_bytes`].
    counted_bytes: AtomicU64,
    /// The peak for which the last snapshot was written.
    seen_peak_bytes: AtomicU64,
    has_exited: AtomicBool,
    oom: OomTurn,
}

impl fmt::Debug for Armed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Armed").field("triggers", &self.triggers).finish_non_exhaustive()
    }
}

impl Armed {
    pub(in crate::trigger) fn new(triggers: Triggers, template: Template, source: Source) -> Armed {
        let levels = (source.levels)().unwrap_or_default();
        Armed {
            files: Files::new(template, triggers.keep),
            next_ms: AtomicU64::new(triggers.every.map_or(u64::MAX, millis)),
            counted_bytes: AtomicU64::new(levels.allocated_bytes),
            seen_peak_bytes: AtomicU64::new(0),
            since: Instant::now(),
            has_exited: AtomicBool::new(false),
            oom: OomTurn::new(),
            triggers,
            source,
        }
    }

    pub(crate) fn is_on_oom(&self) -> bool {
        self.triggers.oom
    }

    pub(crate) fn is_on_exit(&self) -> bool {
        self.triggers.exit
    }

    pub(in crate::trigger) fn is_on_panic(&self) -> bool {
        self.triggers.panic
    }

    pub(in crate::trigger) fn is_on_signal(&self, signal: Signal) -> bool {
        self.triggers.signals.contains(&signal)
    }

    /// Writes a snapshot. A failure is counted and printed; a source that is gone is not a failure.
    pub(in crate::trigger) fn dump(&self, cause: Cause) -> Option<Result<PathBuf>> {
        self.dump_with(cause, None)
    }

    /// Like [`Armed::dump`], with a verdict next to the snapshot.
    fn dump_with(&self, cause: Cause, verdict: Option<&OomVerdict>) -> Option<Result<PathBuf>> {
        let mut is_gone = false;
        let written = self.write(cause, verdict, &mut |path| {
            (self.source.save)(path).unwrap_or_else(|| {
                is_gone = true;
                Err(Error::misuse("it is gone"))
            })
        });
        if is_gone { None } else { counted(cause, written) }
    }

    /// Writes the snapshot of the exit, unless it was already written.
    pub(in crate::trigger) fn dump_at_exit(&self) {
        if !self.has_exited.swap(true, Ordering::Relaxed) {
            self.dump(Cause::Exit);
        }
    }

    /// Writes the snapshot of the exit with `save`, while the source is dropped.
    pub(in crate::trigger) fn dump_at_drop(&self, save: &dyn Fn(&Path) -> Result<()>) {
        if !self.has_exited.swap(true, Ordering::Relaxed) {
            counted(Cause::Exit, self.write(Cause::Exit, None, &mut |path| save(path)));
        }
    }

    /// Writes the snapshot and the verdict of a failed request, and adds the path, or the reason why it could not be
    /// written, to the figures.
    pub(in crate::trigger) fn dump_oom(
        &self,
        figures: &mut OutOfMemory,
        on_failure: &OnFailure<'_>,
    ) -> SnapshotOf {
        match self.oom.begin() {
            Turn::Write => {}
            Turn::Kept(path) => {
                figures.kept_snapshot = figures.kept_snapshot.take().or(path);
                return SnapshotOf::Another;
            }
            Turn::Elsewhere => return SnapshotOf::Another,
        }
        on_failure.explain(figures);
        let written = self.dump_with(Cause::Oom, figures.verdict.as_ref());
        self.oom.end(written.as_ref().and_then(|written| written.as_ref().ok()).cloned());
        match written {
            Some(Ok(path)) => {
                figures.snapshot_failure = None;
                figures.snapshot.get_or_insert(path);
            }
            Some(Err(error)) if figures.snapshot.is_none() => {
                figures.snapshot_failure = Some(error.to_string());
            }
            _ => {}
        }
        SnapshotOf::Own
    }

    /// Writes a file. Returns `None` if this thread is in the middle of another snapshot.
    fn write(
        &self,
        cause: Cause,
        verdict: Option<&OomVerdict>,
        save: &mut dyn FnMut(&Path) -> Result<()>,
    ) -> Option<Result<PathBuf>> {
        let _dumping = Dumping::begin()?;
        let written = catch_unwind(AssertUnwindSafe(|| {
            let path = self.files.write(cause, save)?;
            verdict.iter().for_each(|verdict| verdict::write(&path, verdict, Existing::Stays));
            Ok(path)
        }));
        Some(written.unwrap_or_else(|_| Err(Error::misuse("memreel has a bug: it panicked"))))
    }

    /// Returns when the set must be checked again.
    pub(in crate::trigger) fn wait(&self) -> Option<Duration> {
        let interval = self.triggers.every.map(|_| {
            let ms = self.next_ms.load(Ordering::Relaxed).saturating_sub(millis(self.since.elapsed()));
            Duration::from_millis(ms)
        });
        let poll = self.triggers.watches_bytes().then_some(POLL);
        interval.into_iter().chain(poll).min()
    }

    /// Writes the snapshots that are due.
    pub(in crate::trigger) fn poll(&self) {
        if let Some(every) = self.triggers.every {
            let now = millis(self.since.elapsed());
            if now >= self.next_ms.load(Ordering::Relaxed) {
                self.dump(Cause::Interval);
                // Intervals that passed during the write are skipped.
                let (every, now) = (millis(every), millis(self.since.elapsed()));
                self.next_ms.store((now / every + 1).saturating_mul(every), Ordering::Relaxed);
            }
        }
        if self.triggers.watches_bytes()
            && let Some(levels) = (self.source.levels)()
        {
            self.poll_bytes(levels);
            self.poll_peak(levels);
        }
    }

    fn poll_bytes(&self, levels: Levels) {
        let Some(every) = self.triggers.every_bytes else { return };
        let counted = self.counted_bytes.load(Ordering::Relaxed);
        // The sum falls if the program resets its statistics.
        let more = levels.allocated_bytes.checked_sub(counted);
        let counted = more.map_or(levels.allocated_bytes, |more| counted + more / every * every);
        self.counted_bytes.store(counted, Ordering::Relaxed);
        if more.is_some_and(|more| more >= every) {
            self.dump(Cause::Bytes);
        }
    }

    fn poll_peak(&self, levels: Levels) {
        let Some(threshold) = self.triggers.peak_bytes else { return };
        let seen = self.seen_peak_bytes.load(Ordering::Relaxed);
        if levels.peak_bytes > threshold.max(seen.saturating_add(seen / 20)) {
            self.seen_peak_bytes.store(levels.peak_bytes, Ordering::Relaxed);
            self.dump(Cause::Peak);
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// Counts and prints a failure.
fn counted(cause: Cause, written: Option<Result<PathBuf>>) -> Option<Result<PathBuf>> {
    if let Some(Err(error)) = &written {
        unwritten::count(cause.name(), error);
    }
    written
}
