//! Checks whether the entries of a trace are in the order of their times (`docs/snapshot-format.md` 2.4 and 2.5).

use crate::model::TraceEntry;

/// The time in microseconds by which the clocks of several processors may differ.
const JITTER_US: i64 = 1000;

/// An entry that is older than one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disorder {
    /// The number of the first such entry.
    pub entry: usize,
    /// The number of the latest entry before it.
    pub latest: usize,
    /// How much older it is than that, in microseconds.
    pub back_us: i64,
    /// The number of such entries.
    pub n_entries: usize,
}

/// Returns where a trace stops being in the order of its times; `None` if it is in order.
///
/// A ring whose size was changed while it held entries writes its parts in the wrong order, and times
/// run back by as long as it took to fill. Clocks that differ make them run back by up to a
/// millisecond, which is tolerated unless the trace also contradicts itself: a small ring fills as
/// fast. An entry that could not be dated has the time 0 and is passed over.
pub fn disorder(entries: &[TraceEntry], has_contradictions: bool) -> Option<Disorder> {
    let found = beyond(entries, JITTER_US);
    if has_contradictions { found.or_else(|| beyond(entries, 0)) } else { found }
}

fn beyond(entries: &[TraceEntry], tolerance_us: i64) -> Option<Disorder> {
    let mut latest: Option<(usize, i64)> = None;
    let mut found: Option<Disorder> = None;
    for (entry, time_us) in entries.iter().map(|entry| entry.time_us).enumerate().filter(|at| at.1 != 0) {
        let Some((number, latest_us)) = latest else {
            latest = Some((entry, time_us));
            continue;
        };
        let back_us = latest_us.saturating_sub(time_us);
        if back_us <= 0 {
            latest = Some((entry, time_us));
        } else if back_us > tolerance_us {
            let first = found.get_or_insert(Disorder { entry, latest: number, back_us, n_entries: 0 });
            first.n_entries += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(times: &[i64]) -> Vec<TraceEntry> {
        times.iter().map(|time_us| TraceEntry { time_us: *time_us, ..TraceEntry::default() }).collect()
    }

    #[test]
    fn contradictions_decide_whether_small_steps_count() {
        let found = |times: &[i64], has_contradictions| disorder(&trace(times), has_contradictions);
        let first = Disorder { entry: 3, latest: 0, back_us: 1100, n_entries: 1 };
        assert_eq!([false, true].map(|has| found(&[5000, 4000, 4500, 3900], has)), [Some(first); 2]);
        let small = Disorder { entry: 1, latest: 0, back_us: 1000, n_entries: 2 };
        assert_eq!(found(&[5000, 4000, 4999], true), Some(small));
        assert_eq!(found(&[5000, 4000, 4999], false), None);
        assert_eq!(found(&[], true), None);
    }

    #[test]
    fn an_entry_without_a_time_is_passed_over() {
        assert_eq!(disorder(&trace(&[0, 5000, 0, 5001, 0]), true), None);
        let back = Disorder { entry: 2, latest: 0, back_us: 2000, n_entries: 1 };
        assert_eq!(disorder(&trace(&[5000, 0, 3000]), false), Some(back));
    }
}
