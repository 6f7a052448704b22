//! The address ranges that the program mapped itself, with their stacks: the kernel reports who has memory, not which
//! line requested it.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, ops::Range};

use super::clock::Ticks;
use memreel_snapshot::words::StackId;

/// The most ranges that can exist at once. What a program maps beyond that has no stack.
const MOST_LIVE: usize = 16 << 10;

/// The most unmapped ranges that are kept, the largest: an earlier reading of the process may contain them.
const MOST_ENDED: usize = 1 << 10;

/// A range that one stack mapped. One that ended when it started never existed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MappedRange {
    pub(crate) range: Range<u64>,
    pub(crate) stack: StackId,
    pub(crate) from: Ticks,
    /// The last ticks at which it exists.
    pub(crate) until: Ticks,
}

/// The ticks of no end.
const NEVER: Ticks = Ticks(u64::MAX);

impl MappedRange {
    /// Returns when it ended; `None` if it still exists.
    pub(crate) fn ended(&self) -> Option<Ticks> {
        (self.until != NEVER).then_some(self.until)
    }
}

/// The ranges of a process.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    /// The existing ranges by start; no two overlap.
    live: BTreeMap<u64, MappedRange>,
    ended: Vec<MappedRange>,
}

impl Mapped {
    /// Adds a range, replacing what was there, and calls `changed` with each range that started, grew or ended. Without
    /// a stack there is nothing to add.
    pub(super) fn map(
        &mut self,
        range: Range<u64>,
        stack: StackId,
        at: Ticks,
        changed: &mut dyn FnMut(&MappedRange),
    ) {
        self.unmap(range.clone(), at, changed);
        if stack.is_some() && range.start < range.end && self.live.len() < MOST_LIVE {
            let new = self.grown(MappedRange { range, stack, from: at, until: NEVER }, changed);
            changed(&new);
            self.live.insert(new.range.start, new);
        }
    }

    /// Merges a new range with its neighbours of the same stack, so that a loop that maps has one range. The first
    /// neighbour grows; it is noted so that the other never existed.
    fn grown(&mut self, new: MappedRange, changed: &mut dyn FnMut(&MappedRange)) -> MappedRange {
        let before = self.live.range(..new.range.start).next_back().map(|(_, before)| before);
        let before = before.filter(|of| of.range.end == new.range.start && of.stack == new.stack).cloned();
        let behind = self.live.get(&new.range.end).filter(|behind| behind.stack == new.stack).cloned();
        let first = before.as_ref().or(behind.as_ref()).unwrap_or(&new);
        let end = behind.as_ref().unwrap_or(&new).range.end;
        let start = first.range.start.min(new.range.start);
        let grown = MappedRange { range: start..end, from: first.from, ..new };
        if let Some(behind) = behind {
            self.live.remove(&behind.range.start);
            changed(&MappedRange { until: behind.from, ..behind });
        }
        grown
    }

    /// Ends the mapped parts of a range. Calls `changed` as [`Mapped::map`] does.
    pub(super) fn unmap(&mut self, range: Range<u64>, at: Ticks, changed: &mut dyn FnMut(&MappedRange)) {
        let meeting = self.live.range(..range.end).rev().take_while(|(_, of)| of.range.end > range.start);
        for start in meeting.map(|(start, _)| *start).collect::<Vec<_>>() {
            let Some(old) = self.live.remove(&start) else { continue };
            self.end(MappedRange { until: at, ..old.clone() }, changed);
            for rest in [old.range.start..range.start, range.end..old.range.end] {
                if rest.start < rest.end && self.live.len() < MOST_LIVE {
                    let rest = MappedRange { range: rest, from: at, ..old };
                    changed(&rest);
                    self.live.insert(rest.range.start, rest);
                }
            }
        }
    }

    fn end(&mut self, ended: MappedRange, changed: &mut dyn FnMut(&MappedRange)) {
        changed(&ended);
        self.keep_ended(ended);
    }

    fn keep_ended(&mut self, ended: MappedRange) {
        if self.ended.len() == MOST_ENDED {
            self.ended.sort_by_key(|of| std::cmp::Reverse(of.range.end - of.range.start));
            self.ended.truncate(MOST_ENDED / 2);
        }
        self.ended.push(ended);
    }

    /// Returns all ranges: first those that ended, then those that exist.
    pub(super) fn all(&self) -> impl Iterator<Item = &MappedRange> {
        self.ended.iter().chain(self.live.values())
    }

    /// Removes the ranges that ended.
    pub(super) fn forget_ended(&mut self) {
        self.ended.clear();
    }

    /// Returns the ranges of a tape's notes, in the order of the notes: of notes with the same start address and time,
    /// the last one counts.
    pub(super) fn of_notes(notes: Vec<MappedRange>) -> Mapped {
        let all: BTreeMap<(u64, Ticks), MappedRange> =
            notes.into_iter().map(|of| ((of.range.start, of.from), of)).collect();
        let mut mapped = Mapped::default();
        for of in all.into_values().filter(|of| of.from < of.until) {
            match of.ended() {
                None if mapped.live.len() < MOST_LIVE => drop(mapped.live.insert(of.range.start, of)),
                None => {}
                Some(_) => mapped.keep_ended(of),
            }
        }
        mapped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::testing::random::Random;

    /// The stack of each address.
    fn seen(mapped: &Mapped) -> BTreeMap<u64, StackId> {
        let live = mapped.live.values();
        live.flat_map(|of| of.range.clone().map(|address| (address, of.stack))).collect()
    }

    /// Against a map of addresses.
    #[test]
    fn each_address_has_the_stack_that_mapped_it_last() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (mut mapped, mut truth, mut notes) = (Mapped::default(), BTreeMap::new(), Vec::new());
            for time in 1..80 {
                let start = random.below(60);
                let range = start..start + random.below(12);
                let mut note = |of: &MappedRange| notes.push(of.clone());
                range.clone().for_each(|address| _ = truth.remove(&address));
                match random.below(4) {
                    0 => mapped.unmap(range, Ticks(time), &mut note),
                    1 => mapped.map(range, StackId::NONE, Ticks(time), &mut note),
                    n => {
                        let stack = StackId(u32::try_from(n).unwrap());
                        truth.extend(range.clone().map(|address| (address, stack)));
                        mapped.map(range, stack, Ticks(time), &mut note);
                    }
                }
                assert_eq!(seen(&mapped), truth, "seed {seed}, {time}");
            }
            let read = Mapped::of_notes(notes);
            assert_eq!(read.live, mapped.live, "seed {seed}");
            let ended = |mapped: &Mapped| mapped.ended.iter().filter(|of| of.from < of.until).count();
            assert!(ended(&read) > 0 && ended(&read) <= ended(&mapped), "seed {seed}");
        }
    }

    #[test]
    fn ranges_are_bounded_and_a_loop_has_one() {
        let mut mapped = Mapped::default();
        // As the kernel does: each below the last one.
        for n in (1..100_000_u64).rev() {
            mapped.map(n * 4096..(n + 1) * 4096, StackId(1), Ticks(n), &mut |_| {});
        }
        let ranges: Vec<u64> = mapped.live.values().flat_map(|of| [of.range.start, of.range.end]).collect();
        assert_eq!(ranges, [4096, 100_000 * 4096]);
        // One that a part of is mapped again and again, each time by another stack.
        mapped.map(1 << 40..1 << 50, StackId(7), Ticks(1), &mut |_| {});
        for n in 0..100_000_u64 {
            let at = (1 << 40) + n * 8192;
            mapped.map(at..at + 4096, StackId(8), Ticks(n), &mut |_| {});
        }
        assert!(mapped.live.len() <= MOST_LIVE && mapped.ended.len() <= MOST_ENDED);
        for n in 0..100_000_u64 {
            let stack = StackId(u32::try_from(n % 2).unwrap());
            mapped.map(n * 4096..(n + 1) * 4096, stack, Ticks(n), &mut |_| {});
            mapped.unmap(n * 8192..n * 8192 + 4096, Ticks(n), &mut |_| {});
        }
        assert!(mapped.live.len() <= MOST_LIVE && mapped.ended.len() <= MOST_ENDED);
    }
}
