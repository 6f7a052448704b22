//! What the previous look saw on a device.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use memreel::integrate::UsageReport;

/// How long the processes' use stays known: querying it takes longer than a look at the memory.
const OTHERS: Duration = Duration::from_secs(1);

/// How often a report that equals the previous one is written.
const UNCHANGED: Duration = Duration::from_secs(10);

/// How long figures may be missing because calls are in progress at each look.
const MISSING: Duration = Duration::from_millis(200);

/// The number of looks, none of one moment, after which the least that nothing explained is the driver's.
const UNSETTLED: u32 = 6;

/// The driver gives memory in pages of this size.
pub(crate) const PAGE_BYTES: u64 = 2 << 20;

/// What processes use of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Processes {
    /// This process.
    pub(crate) own_bytes: u64,
    /// All others.
    pub(crate) others_bytes: u64,
}

impl Processes {
    /// Returns the used bytes of a device that are attributed to none of several processes. A single process has all of
    /// it.
    pub(crate) fn no_process_bytes(&self, used_bytes: u64) -> u64 {
        match self.others_bytes {
            0 => 0,
            others_bytes => used_bytes.saturating_sub(self.own_bytes.saturating_add(others_bytes)),
        }
    }
}

/// What was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    report: Option<(UsageReport, Instant)>,
    /// When figures were of one moment, or were reported although they were not.
    at: Option<Instant>,
    processes: Option<Known>,
    /// What no process had when they were asked.
    pub(crate) no_process_bytes: u64,
    /// The most used bytes of a report.
    most_bytes: u64,
    /// The number of looks since figures were of one moment, and the least bytes that nothing explained in them.
    unsettled: Option<(u32, i64)>,
}

/// What is known about processes.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// `None` if they are not visible.
    found: Option<Processes>,
    /// The used bytes that were not accounted for, including other processes'.
    unaccounted_bytes: i64,
    at: Instant,
}

impl Seen {
    /// Returns what processes use, if that is known. Used bytes that are not accounted for are of other processes, or of
    /// this process's driver; so the processes are asked again when these bytes change by a page. Where they are not given,
    /// calls are under way that change them.
    pub(crate) fn processes(&self, unaccounted_bytes: Option<i64>) -> Option<Option<Processes>> {
        let Known { found, unaccounted_bytes: before, at } = self.processes?;
        let is_same = unaccounted_bytes.is_none_or(|bytes| before.abs_diff(bytes) < PAGE_BYTES);
        ((is_same || found.is_none()) && at.elapsed() < OTHERS).then_some(found)
    }

    /// Sets the processes' current use.
    pub(crate) fn set_processes(&mut self, found: Option<Processes>, unaccounted_bytes: i64) {
        self.processes = Some(Known { found, unaccounted_bytes, at: Instant::now() });
    }

    /// Adds a report; returns whether to write it.
    pub(crate) fn is_news(&mut self, report: UsageReport) -> bool {
        self.at = Some(Instant::now());
        self.most_bytes = self.most_bytes.max(report.used_bytes);
        let is_news = self.report.is_none_or(|(before, at)| before != report || at.elapsed() >= UNCHANGED);
        if is_news {
            self.report = Some((report, Instant::now()));
        }
        is_news
    }

    /// Records that figures were from one moment.
    pub(crate) fn settled(&mut self) {
        self.unsettled = None;
    }

    /// Takes the bytes that nothing explained while calls were under way, which have taken memory that is not recorded yet,
    /// or recorded a free that is still to come. Returns the least of several looks, which is not of such a call.
    pub(crate) fn unsettled(&mut self, unexplained_bytes: i64) -> Option<i64> {
        let (n, least) = self.unsettled.unwrap_or((0, i64::MAX));
        let (n, least) = (n + 1, least.min(unexplained_bytes));
        self.unsettled = (n < UNSETTLED).then_some((n, least));
        (n == UNSETTLED).then_some(least)
    }

    /// Returns whether a report would have more used bytes than any.
    pub(crate) fn is_most(&self, used_bytes: u64) -> bool {
        used_bytes > self.most_bytes
    }

    /// Returns whether a report is needed, even if its figures may not be from one moment.
    pub(crate) fn is_late(&self) -> bool {
        self.at.is_none_or(|at| at.elapsed() >= MISSING)
    }
}
