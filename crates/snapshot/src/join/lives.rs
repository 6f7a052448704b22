//! Finds which of the driver's allocations are PyTorch's segments.
//!
//! Both traces are walked together, by time. An allocation of the driver is PyTorch's if a segment of PyTorch starts
//! over it. The two clocks may differ a little, so either event of a pair may come first: what PyTorch's event has not
//! confirmed yet waits for it. Each pair also shows which events of one trace come before which of the other.
//!
//! An allocation is in one of these states, which are ranges of [`Walk`]:
//!
//! | state | the driver has it | PyTorch has it | what [`Found`] gets |
//! | --- | --- | --- | --- |
//! | `others` | yes | no, or not yet | nothing |
//! | `claimed` | yes | yes | the fates of its entries; `begun` if PyTorch had it first; `claimed` if it stays so |
//! | `waiting` | no | still | `ended` and `gone`, if PyTorch never gives it back |
//! | `released` | still | no | `claimed`, if the driver never ends it |
//! | in none | no | no | its last entry is dropped: PyTorch's says the same |
//!
//! A segment of PyTorch within a larger allocation is none of them: it is `hidden`, and so are its `hidden_entries`.

use std::collections::BTreeMap;

use super::side::Side;
use crate::{
    history::{DeviceRange, Joining, Origin, Ranges, Span, final_ranges, undo_segment_event},
    model::{Block, Segment, Shapes, StackIndex, StackTable, TraceEntry},
    rewrite::{Trace, segments_at},
    words::{Action, Address, BlockState, DeviceId, SeededMap, torch::DRIVER_PAGE_BYTES},
};

/// The time in microseconds by which an event may appear later than one that it precedes.
const JITTER_US: i64 = 1000;

/// The state of PyTorch when its history started.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) segments: Vec<Segment>,
    pub(super) time_us: i64,
}

impl Start {
    pub(super) fn new(torch: &Side, device: DeviceId, dumped_us: Option<i64>, shapes: &mut Shapes) -> Start {
        let own: Vec<usize> = (0..torch.segments.len()).collect();
        let trace = Trace::Slice(&torch.trace);
        let segments = segments_at(&torch.segments, &own, (device, false), trace, 0, shapes);
        let first = torch.trace.iter().map(|entry| entry.time_us).find(|time_us| *time_us != 0);
        Start { segments, time_us: first.or(dumped_us).unwrap_or(i64::MAX) }
    }
}

/// An allocation of the driver, from its first event to its last.
#[derive(Clone, Copy, Debug)]
struct Life {
    start: Address,
    end: Address,
    /// The entry that starts it, if the trace has it.
    birth: Option<usize>,
    stack: Option<StackIndex>,
    claim: Option<Claim>,
    /// The entry that ends it while PyTorch still has the segment.
    death: Option<usize>,
    /// PyTorch's entry that releases the segment.
    released: Option<usize>,
}

/// The segment of PyTorch that an allocation is.
#[derive(Clone, Copy, Debug)]
struct Claim {
    range: DeviceRange,
    /// Whether PyTorch had it when its history started.
    is_prior: bool,
}

/// The outcome for an entry of the driver that is about PyTorch's memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    Dropped,
    /// It stays, with the stream and the kind of PyTorch's segment.
    Kept(DeviceRange),
}

/// The pairs that were found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The driver's entries that are about PyTorch's memory.
    pub(super) fates: SeededMap<usize, Fate>,
    /// PyTorch's entries to leave out.
    pub(super) hidden_entries: Vec<bool>,
    /// By PyTorch's entry, the driver's stack of the segment that it begins.
    pub(super) stacks: SeededMap<usize, StackIndex>,
    /// By entry, how many entries of the other trace come before it.
    pub(super) driver_after: SeededMap<usize, usize>,
    pub(super) torch_after: SeededMap<usize, usize>,
    /// How many of the driver's entries come before the start of PyTorch's history.
    pub(super) n_before: usize,
    /// The driver's blocks that PyTorch's blocks replace there: the entry of the alloc, and whether the free is requested.
    pub(super) replaced: Vec<(usize, bool)>,
    /// The driver's allocations in its trace that PyTorch had when its history started.
    pub(super) begun: Ranges<usize>,
    /// The driver's entries that end segments PyTorch still has.
    pub(super) ended: SeededMap<usize, (Address, Address)>,
    /// The parts of PyTorch's segments that are gone at the end.
    pub(super) gone: Ranges<usize>,
    /// PyTorch's segments within larger allocations of the driver.
    pub(super) hidden: Ranges<usize>,
    /// The driver's final segments that are PyTorch's, with their stacks.
    pub(super) claimed: BTreeMap<Address, Option<StackIndex>>,
}

/// Finds the driver's allocations that are PyTorch's segments.
pub(super) fn find(driver: &Side, torch: &Side, start: &Start) -> Found {
    let mut walk = Walk::new(driver, torch);
    walk.all(start);
    walk.finish()
}

struct Walk<'a> {
    driver: &'a Side,
    torch: &'a Side,
    lives: Vec<Life>,
    /// By entry of the driver, the allocation that it is about.
    life_of: Vec<usize>,
    /// Existing allocations: those of others, PyTorch's, and those that PyTorch released.
    others: Ranges<usize>,
    claimed: Ranges<usize>,
    released: Ranges<usize>,
    /// PyTorch's allocations that ended and that PyTorch has not given back.
    waiting: Ranges<usize>,
    /// PyTorch's segments.
    ranges: Ranges<DeviceRange>,
    /// The driver's blocks before PyTorch's history: the entry of the alloc, and whether the free is requested.
    blocks: BTreeMap<Address, (usize, bool)>,
    found: Found,
}

const NONE: usize = usize::MAX;

impl<'a> Walk<'a> {
    fn new(driver: &'a Side, torch: &'a Side) -> Walk<'a> {
        let mut ranges = final_ranges(driver.segments.iter().enumerate(), Joining::Apart);
        for (number, entry) in driver.trace.iter().enumerate().rev() {
            let given_back = DeviceRange::from_entry(entry, number);
            // An event that later ones contradict changes nothing.
            let _ = undo_segment_event(&mut ranges, entry, given_back, Joining::Apart);
        }
        let mut walk = Walk {
            driver,
            torch,
            lives: Vec::new(),
            life_of: vec![NONE; driver.trace.len()],
            others: Ranges::default(),
            claimed: Ranges::default(),
            released: Ranges::default(),
            waiting: Ranges::default(),
            ranges: Ranges::default(),
            blocks: BTreeMap::new(),
            found: Found { hidden_entries: vec![false; torch.trace.len()], ..Found::default() },
        };
        for (at, span) in ranges.iter() {
            let stack = match span.value.origin {
                Origin::Segment(number) => driver.segments[number].stack,
                Origin::Entry(_) => None,
            };
            walk.add(at, span.end, None, stack);
        }
        walk
    }

    fn all(&mut self, start: &Start) {
        let (driver, torch) = (self.driver, self.torch);
        let (mut at, mut of_torch) = (0, 0);
        let (mut driver_us, mut torch_us) = (i64::MIN, start.time_us);
        let mut has_begun = false;
        loop {
            if let Some(entry) = torch.trace.get(of_torch) {
                torch_us = torch_us.max(entry.time_us);
            }
            let is_next = driver.trace.get(at).is_some_and(|entry| {
                driver_us = driver_us.max(entry.time_us);
                driver_us <= torch_us || (has_begun && of_torch == torch.trace.len())
            });
            if is_next {
                self.step_driver(at, &driver.trace[at]);
                at += 1;
                continue;
            }
            if !has_begun {
                has_begun = true;
                at = self.late_beginnings(start, at);
                self.begin(start, at);
            } else if let Some(entry) = torch.trace.get(of_torch) {
                self.step_torch(of_torch, entry);
                of_torch += 1;
            } else {
                return;
            }
        }
    }

    /// Takes the driver's next entries if they begin what PyTorch had already. Returns the number of the next.
    fn late_beginnings(&mut self, start: &Start, mut at: usize) -> usize {
        let ranges = final_ranges(start.segments.iter().enumerate(), Joining::Apart);
        let driver = self.driver;
        while let Some(entry) = driver.trace.get(at)
            && matches!(entry.action, Some(Action::SegmentAlloc | Action::SegmentMap | Action::Alloc))
            && entry.time_us <= start.time_us.saturating_add(JITTER_US)
            && ranges.overlapping(entry.address, entry.end()).is_some()
        {
            self.step_driver(at, entry);
            at += 1;
        }
        at
    }

    /// Adds an allocation of the driver.
    fn add(
        &mut self,
        start: Address,
        end: Address,
        birth: Option<usize>,
        stack: Option<StackIndex>,
    ) -> usize {
        let life = self.lives.len();
        self.lives.push(Life { start, end, birth, stack, claim: None, death: None, released: None });
        for ranges in [&mut self.others, &mut self.claimed, &mut self.released] {
            ranges.carve(start, end);
        }
        if end > start {
            self.others.insert(start, Span { end, value: life });
        }
        life
    }

    fn step_driver(&mut self, number: usize, entry: &TraceEntry) {
        let (start, end) = (entry.address, entry.end());
        match entry.action {
            Some(Action::SegmentAlloc | Action::SegmentMap) => {
                let life = self.add(start, end, Some(number), entry.stack);
                self.life_of[number] = life;
                if self.waiting.overlapping(start, end).is_some() {
                    return;
                }
                if let Some((from, span)) = self.ranges.overlapping(start, end)
                    && covers(from, span.end, start, end)
                {
                    self.claim(life, span.value);
                }
            }
            Some(Action::SegmentFree | Action::SegmentUnmap) => self.end(number, start, end),
            Some(Action::Alloc | Action::FreeRequested | Action::FreeCompleted) => {
                let all = [&self.others, &self.claimed, &self.released];
                if let Some((_, span)) = all.into_iter().find_map(|ranges| ranges.at(start)) {
                    self.life_of[number] = span.value;
                }
                match entry.action {
                    Some(Action::Alloc) => drop(self.blocks.insert(start, (number, false))),
                    Some(Action::FreeRequested) => {
                        self.blocks.get_mut(&start).into_iter().for_each(|block| block.1 = true);
                    }
                    _ => drop(self.blocks.remove(&start)),
                }
            }
            _ => {}
        }
    }

    /// Ends the driver's allocations in a range.
    fn end(&mut self, number: usize, start: Address, end: Address) {
        self.others.carve(start, end);
        while let Some((at, span)) = self.released.overlapping(start, end) {
            self.released.remove(at);
            if let Some(released) = self.lives[span.value].released {
                self.release(number, released);
            }
        }
        while let Some((at, span)) = self.claimed.overlapping(start, end) {
            self.claimed.remove(at);
            self.lives[span.value].death = Some(number);
            self.waiting.carve(at, span.end);
            self.waiting.insert(at, span);
        }
    }

    /// Drops an entry of the driver in favour of PyTorch's, which comes first.
    fn release(&mut self, death: usize, released: usize) {
        self.found.fates.insert(death, Fate::Dropped);
        self.found.driver_after.insert(death, released + 1);
    }

    /// Begins PyTorch's history.
    fn begin(&mut self, start: &Start, n_before: usize) {
        self.found.n_before = n_before;
        for (number, segment) in start.segments.iter().enumerate() {
            let (from, end) = (segment.address, segment.address.saturating_add(segment.total_size));
            let range = DeviceRange {
                stream: segment.stream,
                is_expandable: segment.is_expandable,
                origin: Origin::Segment(number),
            };
            self.begin_range(from, end, range);
        }
        let begun: Vec<(Address, Address)> =
            self.found.begun.iter().map(|(start, span)| (start, span.end)).collect();
        for (from, end) in begun {
            let blocks = self.blocks.range(from..end).map(|(_, block)| *block);
            self.found.replaced.extend(blocks);
        }
        self.found.torch_after.insert(0, n_before);
    }

    /// Begins a segment of PyTorch. Returns whether it is shown.
    fn begin_range(&mut self, start: Address, end: Address, range: DeviceRange) -> bool {
        if let Some((at, span)) = self.others.overlapping(start, end)
            && !covers(start, end, at, span.end)
        {
            self.found.hidden.carve(start, end);
            self.found.hidden.insert(start, Span { end, value: 0 });
            return false;
        }
        self.ranges.carve(start, end);
        if end > start {
            self.ranges.insert_apart(start, Span { end, value: range });
        }
        while let Some((_, span)) = self.others.overlapping(start, end) {
            self.claim(span.value, range);
        }
        true
    }

    fn claim(&mut self, life: usize, range: DeviceRange) {
        let Life { start, end, birth, stack, .. } = self.lives[life];
        self.others.remove(start);
        self.claimed.carve(start, end);
        self.claimed.insert(start, Span { end, value: life });
        let is_prior = matches!(range.origin, Origin::Segment(_));
        self.lives[life].claim = Some(Claim { range, is_prior });
        match range.origin {
            Origin::Entry(number) => {
                // The lowest address is the last.
                if let Some(stack) = stack {
                    self.found.stacks.insert(number, stack);
                }
                let n = self.found.torch_after.entry(number).or_default();
                *n = (*n).max(birth.map_or(0, |birth| birth + 1));
            }
            Origin::Segment(_) if birth.is_some() => {
                self.found.begun.carve(start, end);
                self.found.begun.insert(start, Span { end, value: life });
            }
            Origin::Segment(_) => {}
        }
    }

    fn step_torch(&mut self, number: usize, entry: &TraceEntry) {
        let (start, end) = (entry.address, entry.end());
        let is_hidden = match entry.action {
            Some(Action::SegmentAlloc | Action::SegmentMap) => {
                !self.begin_range(start, end, DeviceRange::from_entry(entry, number))
            }
            Some(Action::SegmentFree | Action::SegmentUnmap) => {
                let is_hidden = self.found.hidden.overlapping(start, end).is_some();
                self.found.hidden.carve(start, end);
                self.end_range(number, start, end);
                is_hidden
            }
            Some(Action::Alloc | Action::FreeRequested | Action::FreeCompleted) => {
                self.found.hidden.at(start).is_some()
            }
            _ => false,
        };
        self.found.hidden_entries[number] = is_hidden;
    }

    /// Ends PyTorch's segments in a range.
    fn end_range(&mut self, number: usize, start: Address, end: Address) {
        self.ranges.carve(start, end);
        for (at, span) in self.waiting.beginning_in(start, end).collect::<Vec<_>>() {
            self.waiting.remove(at);
            if let Some(death) = self.lives[span.value].death {
                self.release(death, number);
            }
        }
        for (at, span) in self.claimed.beginning_in(start, end).collect::<Vec<_>>() {
            self.claimed.remove(at);
            self.lives[span.value].released = Some(number);
            self.released.carve(at, span.end);
            self.released.insert(at, span);
        }
    }

    fn finish(mut self) -> Found {
        let n_torch = self.torch.trace.len();
        for (at, span) in self.waiting.iter() {
            let life = &self.lives[span.value];
            let (Some(death), Some(claim)) = (life.death, life.claim) else { continue };
            self.found.fates.insert(death, Fate::Kept(claim.range));
            self.found.driver_after.insert(death, n_torch);
            self.found.ended.insert(death, (at, span.end));
            self.found.gone.carve(at, span.end);
            self.found.gone.insert(at, Span { end: span.end, value: 0 });
        }
        for (number, life) in self.life_of.iter().enumerate().filter(|(_, life)| **life != NONE) {
            let life = &self.lives[*life];
            let Some(Claim { range, is_prior }) = life.claim else { continue };
            let is_birth = life.birth == Some(number);
            let is_kept = match is_birth {
                true => is_prior,
                false => is_prior && life.birth.is_some() && number < self.found.n_before,
            };
            let fate = if is_kept { Fate::Kept(range) } else { Fate::Dropped };
            self.found.fates.insert(number, fate);
        }
        for ranges in [&self.claimed, &self.released] {
            let stack = |life: usize| self.lives[life].stack.filter(|stack| *stack != StackTable::EMPTY);
            self.found.claimed.extend(ranges.iter().map(|(at, span)| (at, stack(span.value))));
        }
        self.found
    }
}

/// Returns whether a segment of PyTorch covers an allocation, whose size may be rounded.
fn covers(start: Address, end: Address, of_start: Address, of_end: Address) -> bool {
    let rounded = end.0.checked_next_multiple_of(DRIVER_PAGE_BYTES).map_or(end, Address);
    start <= of_start && of_end <= rounded
}

/// The blocks in use of PyTorch's segments when its history began, which need an event: those in allocations that the
/// driver's trace begins.
pub(super) fn begun_blocks<'a>(
    start: &'a Start,
    found: &'a Found,
) -> impl Iterator<Item = (&'a Segment, &'a Block)> {
    start.segments.iter().flat_map(move |segment| {
        let blocks = segment.blocks.iter().filter(|block| block.state.is_some_and(BlockState::is_active));
        let is_begun = |block: &&Block| {
            found.begun.overlapping(block.address, block.address.saturating_add(block.size)).is_some()
        };
        blocks.filter(is_begun).map(move |block| (segment, block))
    })
}
