//! Many settings at once, on every core.

use std::{
    num::NonZero,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use super::{
    answer::{Answer, Question, ask},
    requests::Requests,
};
use crate::error::Result;

/// Settings worth a try, the default first. Garbage is collected only under
/// a limit, so thresholds are tried only with one.
#[must_use]
pub fn grid(has_limit: bool) -> Vec<String> {
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
    if has_limit {
        let thresholds = ["0.6", "0.8", "0.9"].map(|t| format!("garbage_collection_threshold:{t}"));
        confs.extend(thresholds.iter().cloned());
        let pairs = splits.iter().flat_map(|split| thresholds.iter().map(move |t| format!("{t},{split}")));
        confs.extend(pairs);
    }
    confs
}

/// Asks every question of every device's requests, on all cores. The answers
/// come device by device in the order of the questions; memory is that of one
/// allocator a core. `progress` is as for [`ask`].
///
/// # Errors
/// The first error of [`ask`].
pub fn ask_all(
    requests: &[Requests],
    questions: &[Question],
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<Answer>> {
    let jobs: Vec<(&Requests, &Question)> = requests
        .iter()
        .flat_map(|requests| questions.iter().map(move |question| (requests, question)))
        .collect();
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::with_capacity(jobs.len()));
    let work = || {
        while let Some((index, (requests, question))) = take_job(&next, &jobs) {
            let answer = ask(requests, question, progress);
            answers.lock().unwrap_or_else(PoisonError::into_inner).push((index, answer));
        }
    };
    let n_threads = thread::available_parallelism().map_or(1, NonZero::get).min(jobs.len());
    thread::scope(|scope| (0..n_threads).for_each(|_| drop(scope.spawn(work))));
    let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn take_job<'a, J>(next: &AtomicUsize, jobs: &'a [J]) -> Option<(usize, &'a J)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    Some((index, jobs.get(index)?))
}

impl Answer {
    /// The better, the lower: failed requests, then what is reserved, also in
    /// the worst order of addresses, then device calls.
    #[must_use]
    pub fn rank(&self) -> (u64, u64, u64, u64) {
        let outcome = &self.outcome;
        let worst_bytes = self.spread().highest_bytes;
        (outcome.num_ooms, outcome.reserved_peak_bytes, worst_bytes, outcome.num_device_calls())
    }
}
