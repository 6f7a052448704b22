//! What was seen of a device at the look before.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use memreel::integrate::UsageReport;

/// How long it is known what processes use: to ask takes longer than a look at the memory.
const OTHERS: Duration = Duration::from_secs(1);

/// How often a report is written that is like the one before.
const UNCHANGED: Duration = Duration::from_secs(10);

/// How long figures may be missing, because calls are under way at each look.
const MISSING: Duration = Duration::from_millis(200);

/// What processes use of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Processes {
    /// This process.
    pub(crate) own_bytes: u64,
    /// All others.
    pub(crate) others_bytes: u64,
}

/// What was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    report: Option<(UsageReport, Instant)>,
    /// When figures were of one moment, or were reported although they were not.
    at: Option<Instant>,
    processes: Option<Known>,
}

/// What is known of processes.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// `None` if they cannot be seen.
    found: Option<Processes>,
    /// The used bytes that were not accounted for, those of other processes among them.
    unaccounted_bytes: i64,
    at: Instant,
}

impl Seen {
    /// Returns what processes use, if that is known: used bytes that are not accounted for are of other processes, or of
    /// this process's driver, so they are asked again when these change by a page.
    pub(crate) fn processes(&self, unaccounted_bytes: i64, page_bytes: u64) -> Option<Option<Processes>> {
        let Known { found, unaccounted_bytes: before, at } = self.processes?;
        let is_same = found.is_none() || before.abs_diff(unaccounted_bytes) < page_bytes;
        (is_same && at.elapsed() < OTHERS).then_some(found)
    }

    /// Takes what processes use now.
    pub(crate) fn set_processes(&mut self, found: Option<Processes>, unaccounted_bytes: i64) {
        self.processes = Some(Known { found, unaccounted_bytes, at: Instant::now() });
    }

    /// Takes a report; returns whether it is to be written.
    pub(crate) fn is_news(&mut self, report: UsageReport) -> bool {
        self.at = Some(Instant::now());
        let is_news = self.report.is_none_or(|(before, at)| before != report || at.elapsed() >= UNCHANGED);
        if is_news {
            self.report = Some((report, Instant::now()));
        }
        is_news
    }

    /// Returns whether a report is needed, also one whose figures may not be of one moment.
    pub(crate) fn is_late(&self) -> bool {
        self.at.is_none_or(|at| at.elapsed() >= MISSING)
    }
}
