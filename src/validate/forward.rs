//! The trace replayed forward, address by address: rules 21 and 22, and 32's "is live".
//!
//! ```text
//!   unknown ──alloc──▶ live ──free_requested──▶ pending ──free_completed──▶ free ──alloc──▶ live
//!   unknown ──free_requested──▶ pending         unknown ──free_completed──▶ free
//! ```
//!
//! Every other step is an error, but for `free_completed` of a live block,
//! which is a warning. Frees out of *unknown* are one warning a trace: a ring
//! that wrapped, or recording that began late, has many.

use rustc_hash::FxHashMap;

use super::place::{EntryPlace, TracePlace};
use crate::{
    event::{Action, Address, StreamId},
    finding::{Report, Rule},
    snapshot::TraceEntry,
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

/// What an address holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Live,
    Pending,
    Free,
}

/// An address with its latest life.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) state: State,
    pub(super) life: u32,
    /// The life's, which is far away.
    size: u64,
}

/// The life that an entry begins, and the one it ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    pub(super) born: Option<u32>,
    pub(super) died: Option<u32>,
}

/// How often things happened that later rules look at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) by_action: [u64; Action::ALL.len()],
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
    /// Frees of free blocks.
    pub(super) repeated: u64,
}

impl Tally {
    pub(super) fn count(&self, action: Action) -> u64 {
        self.by_action[action as usize]
    }
}

/// A trace after its forward replay.
#[derive(Debug)]
pub(super) struct Forward<'a> {
    pub(super) entries: &'a [TraceEntry],
    pub(super) place: TracePlace,
    pub(super) lives: Vec<Life>,
    /// By entry.
    pub(super) changes: Vec<Change>,
    pub(super) spots: FxHashMap<Address, Spot>,
    pub(super) tally: Tally,
}

impl<'a> Forward<'a> {
    /// Replays the entries in the given order.
    pub(super) fn run(
        entries: &'a [TraceEntry],
        order: impl Iterator<Item = usize>,
        place: TracePlace,
        report: &mut Report,
    ) -> Forward<'a> {
        let mut forward = Forward {
            entries,
            place,
            lives: Vec::new(),
            changes: vec![Change::default(); entries.len()],
            spots: FxHashMap::default(),
            tally: Tally::default(),
        };
        for index in order {
            forward.step(index, report);
        }
        forward.tell_unknown(report);
        forward
    }

    fn step(&mut self, index: usize, report: &mut Report) {
        let entry = &self.entries[index];
        let Some(action) = entry.action else { return };
        self.tally.by_action[action as usize] += 1;
        if matches!(action, Action::FreeRequested | Action::FreeCompleted) {
            self.tally.first_free.get_or_insert(index);
        }
        let spot = self.spots.get(&entry.address).copied();
        match action {
            Action::Alloc => self.alloc(index, spot, report),
            Action::FreeRequested => self.request(index, spot, report),
            Action::FreeCompleted => self.complete(index, spot, report),
            Action::Annotate => self.annotate(index, spot, report),
            _ => {}
        }
    }

    fn at(&self, index: usize) -> EntryPlace {
        self.place.entry(index)
    }

    fn alloc(&mut self, index: usize, spot: Option<Spot>, report: &mut Report) {
        if let Some(spot) = spot.filter(|spot| spot.state != State::Free) {
            let state = match spot.state {
                State::Live => "live; the viewer never ends its first life",
                _ => "waiting for its free_completed",
            };
            let address = self.entries[index].address;
            report.error(
                Rule::Lifecycle,
                self.at(index),
                format_args!("alloc at {address:#x}, which is {state}"),
            );
            let count =
                if spot.state == State::Live { &mut self.tally.doubled } else { &mut self.tally.unfinished };
            *count += 1;
            self.changes[index].died = Some(spot.life);
        }
        let life = self.begin(index, Some(index));
        self.changes[index].born = Some(life);
        self.set(index, State::Live, life, self.entries[index].size);
    }

    fn request(&mut self, index: usize, spot: Option<Spot>, report: &mut Report) {
        match spot {
            None => {
                let life = self.begin_unknown(index);
                self.set(index, State::Pending, life, self.entries[index].size);
            }
            Some(Spot { state: State::Live, life, size }) => {
                self.same_size(index, size, report);
                self.set(index, State::Pending, life, size);
            }
            Some(Spot { state: State::Pending, .. }) => {
                self.tally.repeated += 1;
                report.error(
                    Rule::Lifecycle,
                    self.at(index),
                    "free_requested a second time, before its free_completed",
                );
            }
            Some(Spot { state: State::Free, .. }) => self.free_of_free(index, report),
        }
    }

    fn complete(&mut self, index: usize, spot: Option<Spot>, report: &mut Report) {
        let (life, size) = match spot {
            None => (self.begin_unknown(index), self.entries[index].size),
            Some(Spot { state: State::Free, .. }) => return self.free_of_free(index, report),
            Some(Spot { state, life, size }) => {
                if state == State::Live {
                    self.tally.unrequested += 1;
                    report.warning(Rule::Lifecycle, self.at(index), "free_completed without free_requested");
                }
                self.same_size(index, size, report);
                (life, size)
            }
        };
        self.changes[index].died = Some(life);
        self.set(index, State::Free, life, size);
    }

    fn free_of_free(&mut self, index: usize, report: &mut Report) {
        self.tally.repeated += 1;
        let entry = &self.entries[index];
        let (action, address) = (entry.action.map_or("", Action::name), entry.address);
        report.error(
            Rule::Lifecycle,
            self.at(index),
            format_args!("{action} at {address:#x}, which is free already"),
        );
    }

    fn annotate(&mut self, index: usize, spot: Option<Spot>, report: &mut Report) {
        if spot.is_some_and(|spot| spot.state != State::Live) {
            report.warning(Rule::Annotate, self.at(index), "annotates a block that is not live");
        }
    }

    /// Rule 22. The life keeps the size it began with.
    fn same_size(&self, index: usize, then: u64, report: &mut Report) {
        let entry = &self.entries[index];
        if entry.size != then {
            let now = entry.size;
            let action = entry.action.map_or("", Action::name);
            report.error(
                Rule::LifeSizes,
                self.at(index),
                format_args!("{action} of {now} bytes, but it began with {then}"),
            );
        }
    }

    fn begin_unknown(&mut self, index: usize) -> u32 {
        let (count, bytes, first) = &mut self.tally.unknown;
        *count += 1;
        *bytes = bytes.saturating_add(self.entries[index].size);
        first.get_or_insert(index);
        self.begin(index, None)
    }

    fn begin(&mut self, index: usize, born: Option<usize>) -> u32 {
        let TraceEntry { address, size, stream, .. } = self.entries[index];
        self.lives.push(Life { address, size, stream, born });
        // There are no more lives than entries, and a file has fewer than 2^32 of those.
        u32::try_from(self.lives.len() - 1).unwrap_or(u32::MAX)
    }

    fn set(&mut self, index: usize, state: State, life: u32, size: u64) {
        self.spots.insert(self.entries[index].address, Spot { state, life, size });
    }

    fn tell_unknown(&self, report: &mut Report) {
        let (count, bytes, Some(first)) = self.tally.unknown else { return };
        let first = self.at(first);
        let what = "they were allocated before recording began, or the ring lost their alloc";
        let what =
            format_args!("{count} frees ({bytes} bytes) without their alloc, the first at {first}: {what}");
        report.warning(Rule::Lifecycle, self.place, what);
    }
}
