//! Summarises what one rank did, in few bytes.

use serde::Serialize;

use super::{
    curve::ClockCurve,
    steps::{RankStep, steps},
};
use crate::{
    analysis::{By, Bytes, Call, DeviceHistory, Group, Owners, Site, Totals},
    history::{Scopes, step_of},
    model::StackIndex,
    words::{Action, DeviceId},
};

/// The most sites and owners that are kept of a rank.
pub const MAX_HOLDERS: usize = 40;

/// The most calls of a site's name.
const MAX_CALLS: usize = 4;

/// The figures of one device of one rank.
///
/// Their size does not depend on the length of the history.
///
/// ```
/// # use memreel::{DeviceId, Reel, recorder::Recording};
/// use memreel::analysis::{DeviceHistory, ranks::RankFigures};
///
/// # let reel = Reel::builder().history(Recording::all()).build()?;
/// # let _block = reel.alloc(1000)?;
/// let snapshot = reel.snapshot();
/// let figures = RankFigures::new(&DeviceHistory::new(&snapshot, DeviceId(0)));
/// assert_eq!(figures.peak.active_bytes, 1000);
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct RankFigures {
    /// The device.
    pub device: DeviceId,
    /// The number of its events.
    pub n_events: usize,
    /// The time of the first event in microseconds; 0 if it is not known.
    pub first_us: i64,
    /// The time of the last event in microseconds; 0 if it is not known.
    pub last_us: i64,
    /// The figures of the peak.
    pub peak: Totals,
    /// The time of the peak in microseconds; 0 if it is not known.
    pub peak_us: i64,
    /// The scope of the peak's event; empty outside any scope.
    pub peak_scope: String,
    /// The most reserved bytes.
    pub reserved_bytes: u64,
    /// The reserved bytes in no block at the peak.
    pub waste_bytes: u64,
    /// The figures of the end.
    pub end: Totals,
    /// The owners of the reserved memory at the peak, largest first; none if the stacks do not name them
    /// ([`Owners::are_known`]).
    pub owners: Vec<Holder>,
    /// The sites of the blocks at the peak, the largest first.
    pub sites: Vec<Holder>,
    /// The first request that failed.
    pub oom: Option<RankOom>,
    /// The first outermost scopes.
    pub steps: Vec<RankStep>,
    /// The number of outermost scopes.
    pub n_steps: usize,
    /// The active memory by the clock.
    pub curve: ClockCurve,
    /// Why the figures may be too low.
    pub warnings: Vec<String>,
}

/// Who holds bytes at the peak.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Holder {
    /// The name of an owner, or the innermost calls of a stack, which are the same in every rank.
    pub name: String,
    /// The bytes.
    pub bytes: u64,
}

/// A request that failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct RankOom {
    /// The index of its entry.
    pub entry: usize,
    /// The number of all that failed.
    pub n_ooms: usize,
    /// The requested bytes.
    pub requested_bytes: u64,
    /// Its time in microseconds; 0 if it is not known.
    pub time_us: i64,
    /// Its scope; empty outside any scope.
    pub scope: String,
    /// Its step, as in `in step#3` ([`step_of`]); empty before the first.
    pub step: String,
    /// Its innermost calls; empty if the stack was not recorded.
    pub site: String,
}

impl RankFigures {
    /// Reads the history of a rank's device.
    #[must_use]
    pub fn new(history: &DeviceHistory<'_>) -> RankFigures {
        let entries = history.entries();
        let time_us = |totals: &Totals| {
            totals.moment.entry().and_then(|entry| entries.get(entry)).map_or(0, |of| of.time_us)
        };
        let dated = || entries.iter().map(|entry| entry.time_us).filter(|time_us| *time_us != 0);
        let peak = history.peak();
        let scopes = history.scopes();
        let (steps, n_steps) = steps(history, &scopes);
        let scope = |entry| scopes.of_entry(entry).to_string();
        RankFigures {
            device: history.device(),
            n_events: entries.len(),
            first_us: dated().next().unwrap_or(0),
            last_us: dated().next_back().unwrap_or(0),
            peak,
            peak_us: time_us(&peak),
            peak_scope: peak.moment.entry().map_or_else(String::new, scope),
            reserved_bytes: history.highest(|totals| totals.reserved_bytes).reserved_bytes,
            waste_bytes: peak.unused_bytes(),
            end: history.totals_at(history.end()),
            owners: match history.shared().names_owners(Owners::are_known) {
                true => holders(history, history.top(peak.moment, By::Owner)),
                false => Vec::new(),
            },
            sites: holders(history, history.top(peak.moment, By::Stack)),
            oom: oom(history, &scopes),
            steps,
            n_steps,
            curve: ClockCurve::new(history),
            warnings: history.trust().warnings(),
        }
    }
}

fn holders(history: &DeviceHistory<'_>, groups: Vec<Group>) -> Vec<Holder> {
    let named = groups.into_iter().take(MAX_HOLDERS).map(|group| {
        let name = match group.site {
            Site::Stack(stack) => site(history, Some(stack)),
            Site::Owner(owner) => owner.to_string(),
            Site::Size(bytes) => format!("blocks of {} without a stack", Bytes(bytes)),
            _ => String::new(),
        };
        Holder { name, bytes: group.bytes }
    });
    // Stacks that differ only further out have the same name.
    let mut holders: Vec<Holder> = Vec::new();
    for holder in named {
        match holders.iter_mut().find(|known| known.name == holder.name) {
            Some(known) => known.bytes = known.bytes.saturating_add(holder.bytes),
            None => holders.push(holder),
        }
    }
    holders
}

/// Returns the innermost calls of a stack, which do not depend on where a rank's files are.
fn site(history: &DeviceHistory<'_>, stack: Option<StackIndex>) -> String {
    let shown = history.shown_frames();
    let calls = stack.into_iter().flat_map(|stack| shown.identifying_frames(stack));
    calls.take(MAX_CALLS).map(|frame| Call(frame).to_string()).collect::<Vec<_>>().join(" ← ")
}

fn oom(history: &DeviceHistory<'_>, scopes: &Scopes<'_>) -> Option<RankOom> {
    let mut failed =
        history.entries().iter().enumerate().filter(|(_, entry)| entry.action == Some(Action::Oom));
    let (at, entry) = failed.next()?;
    Some(RankOom {
        entry: at,
        n_ooms: 1 + failed.count(),
        requested_bytes: entry.size,
        time_us: entry.time_us,
        scope: scopes.of_entry(at).to_string(),
        step: step_of(&scopes.steps(), at).unwrap_or_default(),
        site: site(history, entry.stack),
    })
}
