//! The forward walk as findings: rules 21 and 22, and 32's "is live".
//!
//! [`Forward`] follows each address and returns what an entry contradicts. Every contradiction is an
//! error; `free_completed` of a live block is a warning. Frees of blocks whose alloc is not in the
//! trace are one warning a trace: a ring that wrapped, or recording that began late, has many.

use super::place::{EntryPlace, TracePlace};
use crate::{
    history::{Contradiction, Displaced, Forward, LifeIndex, State, Step},
    model::TraceEntry,
    words::{Action, Address, Report, Rule, StreamId},
};

/// One use of an address, from its alloc to its free.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    pub(super) address: Address,
    /// The requested bytes.
    pub(super) size: u64,
    pub(super) stream: StreamId,
    /// The entry of its alloc; `None` if that is not in the trace.
    pub(super) born: Option<usize>,
}

/// The life that an entry starts, and the one that it ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    pub(super) born: Option<LifeIndex>,
    pub(super) died: Option<LifeIndex>,
}

/// Counts for later rules.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    by_action: [u64; Action::ALL.len()],
    /// Frees of blocks whose alloc is not in the trace: how many, their bytes, the first.
    pub(super) unknown: (u64, u64, Option<usize>),
    /// The first free of all.
    pub(super) first_free: Option<usize>,
    /// `free_completed` of live blocks.
    pub(super) unrequested: u64,
    /// Allocs of blocks whose free was requested and not completed.
    pub(super) unfinished: u64,
    /// Allocs of live blocks.
    pub(super) doubled: u64,
    /// Frees of blocks whose free was requested or completed before.
    pub(super) repeated: u64,
}

impl Tally {
    pub(super) fn has(&self, action: Action) -> bool {
        self.by_action[action as usize] > 0
    }

    /// Whether an entry cannot follow the entries before it.
    pub(super) fn has_contradictions(&self) -> bool {
        self.unfinished + self.doubled + self.repeated > 0
    }
}

/// A trace after its forward walk.
#[derive(Debug)]
pub(super) struct WalkedTrace<'a> {
    pub(super) entries: &'a [TraceEntry],
    pub(super) place: TracePlace,
    /// The lives, numbered as [`Forward`] numbers them.
    pub(super) lives: Vec<Life>,
    /// By entry.
    pub(super) changes: Vec<Change>,
    pub(super) walk: Forward,
    pub(super) tally: Tally,
}

impl<'a> WalkedTrace<'a> {
    pub(super) fn new(entries: &'a [TraceEntry], place: TracePlace, report: &mut Report) -> WalkedTrace<'a> {
        let mut trace = WalkedTrace {
            entries,
            place,
            lives: Vec::new(),
            changes: vec![Change::default(); entries.len()],
            walk: Forward::default(),
            tally: Tally::default(),
        };
        for (index, entry) in entries.iter().enumerate() {
            trace.step(index, entry, report);
        }
        trace.report_unknown(report);
        trace
    }

    fn step(&mut self, index: usize, entry: &TraceEntry, report: &mut Report) {
        let Some(action) = entry.action else { return };
        let at = self.place.entry(index);
        self.tally.by_action[action as usize] += 1;
        if matches!(action, Action::FreeRequested | Action::FreeCompleted) {
            self.tally.first_free.get_or_insert(index);
        }
        match self.walk.step(entry) {
            Step::Begin { life, displaced } => {
                self.begin(entry, Some(index));
                self.changes[index] = Change { born: Some(life), died: displaced.map(|old| old.life) };
                if let Some(displaced) = displaced {
                    self.displace(entry, displaced, at, report);
                }
            }
            Step::Request { is_prior: true, .. } => self.begin_unknown(index, entry),
            Step::Request { began_bytes, .. } => check_size(entry, began_bytes, at, report),
            Step::End { life, began_bytes, is_prior, was_requested } => {
                self.changes[index].died = Some(life);
                if is_prior {
                    self.begin_unknown(index, entry);
                } else if !was_requested {
                    self.tally.unrequested += 1;
                    report.warning(
                        Rule::Lifecycle,
                        at,
                        "this free_completed has no free_requested before it",
                    );
                }
                check_size(entry, began_bytes, at, report);
            }
            Step::Contradiction(kind) => self.contradict(entry, kind, at, report),
            Step::Other if action == Action::Annotate => self.annotate(entry, at, report),
            Step::Other => {}
        }
    }

    fn begin(&mut self, entry: &TraceEntry, born: Option<usize>) {
        let TraceEntry { address, size, stream, .. } = *entry;
        self.lives.push(Life { address, size, stream, born });
    }

    fn begin_unknown(&mut self, index: usize, entry: &TraceEntry) {
        let (count, bytes, first) = &mut self.tally.unknown;
        *count += 1;
        *bytes = bytes.saturating_add(entry.size);
        first.get_or_insert(index);
        self.begin(entry, None);
    }

    fn displace(&mut self, entry: &TraceEntry, displaced: Displaced, at: EntryPlace, report: &mut Report) {
        let (count, state) = if displaced.was_requested {
            (&mut self.tally.unfinished, "still waiting for its free_completed")
        } else {
            (&mut self.tally.doubled, "still allocated; the viewer never ends that block")
        };
        *count += 1;
        let address = entry.address;
        report.error(
            Rule::Lifecycle,
            at,
            format_args!("alloc at {address:#x}, but the block there is {state}"),
        );
    }

    fn contradict(&mut self, entry: &TraceEntry, kind: Contradiction, at: EntryPlace, report: &mut Report) {
        self.tally.repeated += 1;
        if kind == Contradiction::RequestOfPending {
            let what = "the free of this block is requested again before its free_completed";
            return report.error(Rule::Lifecycle, at, what);
        }
        let (action, address) = (name_of_action(entry), entry.address);
        let what = format_args!("{action} at {address:#x}, but the block there is already free");
        report.error(Rule::Lifecycle, at, what);
    }

    fn annotate(&self, entry: &TraceEntry, at: EntryPlace, report: &mut Report) {
        if self.walk.spot(entry.address).is_some_and(|spot| spot.state != State::Live) {
            report.warning(Rule::Annotate, at, "this `annotate` entry names a block that is not allocated");
        }
    }

    fn report_unknown(&self, report: &mut Report) {
        let (count, bytes, Some(first)) = self.tally.unknown else { return };
        let first = self.place.entry(first);
        let (blocks, at, were) = match count {
            1 => ("block is", "at", "it was"),
            _ => ("blocks are", "the first at", "they were"),
        };
        let what = format_args!(
            "{count} {blocks} freed without an alloc event ({bytes} bytes), {at} {first}; {were} allocated before \
             recording started, or the ring dropped the alloc"
        );
        report.warning(Rule::Lifecycle, self.place, what);
    }
}

/// Rule 22. A life keeps the size that it began with.
fn check_size(entry: &TraceEntry, began_bytes: u64, at: EntryPlace, report: &mut Report) {
    if entry.size != began_bytes {
        let (action, now) = (name_of_action(entry), entry.size);
        let what = format_args!("{action} of {now} bytes, but the block started with {began_bytes} bytes");
        report.error(Rule::LifeSizes, at, what);
    }
}

fn name_of_action(entry: &TraceEntry) -> &'static str {
    entry.action.map_or("", Action::name)
}
