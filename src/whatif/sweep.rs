//! A sweep: replays under many settings, on all cores.

use std::{
    num::NonZero,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use super::{answer::ReplayAnswer, bounds::Bounds, replay::Replay, requests::Requests};
use memreel_snapshot::words::Result;

/// Returns the settings that a [`Sweep`] tries by default, the empty one first. Garbage collection thresholds are
/// included only if there is a limit, because without one they have no effect.
#[must_use]
pub fn grid(limit_bytes: Option<u64>) -> Vec<String> {
    let expandable = "expandable_segments:True";
    let splits = [64, 128, 256, 512].map(|mb| format!("max_split_size_mb:{mb}"));
    let divisions = [2, 4, 8, 16].map(|n| format!("roundup_power2_divisions:{n}"));
    let mut confs = vec![String::new(), expandable.to_owned()];
    confs.extend(splits.iter().cloned());
    confs.extend(divisions.iter().cloned());
    confs.extend(divisions.iter().map(|divisions| format!("{expandable},{divisions}")));
    let pairs = splits.iter().flat_map(|split| divisions.iter().map(move |n| format!("{split},{n}")));
    confs.extend(pairs);
    confs.extend([12, 32, 64].map(|mb| format!("large_segment_size_mb:{mb}")));
    if limit_bytes.is_some() {
        let thresholds = ["0.6", "0.8", "0.9"].map(|t| format!("garbage_collection_threshold:{t}"));
        confs.extend(thresholds.iter().cloned());
        let pairs = splits.iter().flat_map(|split| thresholds.iter().map(move |t| format!("{t},{split}")));
        confs.extend(pairs);
    }
    confs
}

/// Runs the requests of one or more devices under many settings, on all cores.
///
/// It needs the memory of one allocator for each core.
#[must_use = "a sweep does nothing until it is run"]
pub struct Sweep<'a> {
    requests: &'a [Requests],
    confs: Option<Vec<String>>,
    bounds: Bounds,
    on_progress: &'a (dyn Fn(u64) + Sync),
}

impl<'a> Sweep<'a> {
    /// Prepares a sweep over the settings of [`grid`], without a limit.
    pub fn new(requests: &'a [Requests]) -> Sweep<'a> {
        Sweep { requests, confs: None, bounds: Bounds::Ample, on_progress: &|_| () }
    }

    /// Sets the settings to try, each as a text of `PYTORCH_ALLOC_CONF`. Default: those of [`grid`].
    pub fn confs(mut self, confs: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.confs = Some(confs.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the most bytes that may be reserved in each run. Like [`Replay::limit_bytes`].
    pub fn limit_bytes(self, limit_bytes: impl Into<Option<u64>>) -> Self {
        self.bounds(limit_bytes.into().map_or(Bounds::Ample, Bounds::Limit))
    }

    /// Sets the available memory of each run. Like [`Replay::bounds`].
    pub fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Sets a function that is called with the number of steps since the last call, from several threads.
    /// Like [`Replay::on_progress`].
    pub fn on_progress(mut self, on_progress: &'a (dyn Fn(u64) + Sync)) -> Self {
        self.on_progress = on_progress;
        self
    }

    /// Runs the requests of every device under every setting. Answers are ordered by device, then by setting.
    ///
    /// # Errors
    /// The first error of [`Replay::run`].
    pub fn run(&self) -> Result<Vec<ReplayAnswer>> {
        let default = if self.confs.is_none() { grid(self.bounds.limit_bytes()) } else { Vec::new() };
        let confs = self.confs.as_ref().unwrap_or(&default);
        let jobs: Vec<(&Requests, &String)> = self
            .requests
            .iter()
            .flat_map(|requests| confs.iter().map(move |conf| (requests, conf)))
            .collect();
        let next = AtomicUsize::new(0);
        let answers = Mutex::new(Vec::with_capacity(jobs.len()));
        let work = || {
            while let Some((index, (requests, conf))) = take_job(&next, &jobs) {
                let replay = Replay::new(requests).conf(conf.as_str()).bounds(self.bounds);
                let answer = replay.on_progress(self.on_progress).run();
                answers.lock().unwrap_or_else(PoisonError::into_inner).push((index, answer));
            }
        };
        let n_threads = thread::available_parallelism().map_or(1, NonZero::get).min(jobs.len());
        match n_threads {
            // A file may have thousands of devices, and starting a thread takes longer than a short run.
            ..=1 => work(),
            _ => thread::scope(|scope| (0..n_threads).for_each(|_| drop(scope.spawn(work)))),
        }
        let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
        answers.sort_by_key(|(index, _)| *index);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }
}

impl std::fmt::Debug for Sweep<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sweep").field("confs", &self.confs).finish_non_exhaustive()
    }
}

fn take_job<'a, J>(next: &AtomicUsize, jobs: &'a [J]) -> Option<(usize, &'a J)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    Some((index, jobs.get(index)?))
}
