//! Per stack of a device: what it allocated, what is live, and what was live when the device had the most.
//!
//! A new peak copies nothing: a stack's part of the peak is saved when the stack first changes afterwards.
#![forbid(unsafe_code)]

use std::collections::hash_map::Entry;

use memreel_snapshot::words::{RunSums, SeededMap, StackId, StackSum};

/// How a block is counted in the sums.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Counted {
    /// Not at all: it is of a device with segments.
    Nothing,
    /// As live: it is from before the recording.
    Live,
    /// As live and as allocated.
    Allocated,
}

/// The sums of a device.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    stacks: SeededMap<StackId, Sum>,
    live_bytes: u64,
    peak: Peak,
}

/// The moment at which the most bytes were live.
#[derive(Clone, Copy, Debug, Default)]
struct Peak {
    bytes: u64,
    /// Microseconds since the Unix epoch; 0 if it was before the first event.
    time_us: u64,
    /// How many peaks there were before this one.
    number: u64,
    /// Whether earlier peaks are unknown, because the sums are from a tape without them.
    is_unknown: bool,
}

/// Live blocks and their requested bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    n_blocks: u64,
    bytes: u64,
}

/// What a stack allocated and has.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    n_blocks: u64,
    bytes: u64,
    /// Of these bytes, those that are live, and the most that were.
    live_bytes: u64,
    peak_bytes: u64,
    /// What is live, including blocks from before the recording.
    held: Held,
    /// What was live at the peak with this number; `held` if there was a later one.
    at_peak: Held,
    peak_number: u64,
}

impl Sums {
    /// Creates sums from blocks that are live before the first event.
    pub(super) fn of_before(blocks: impl Iterator<Item = (StackId, u64)>) -> Sums {
        let mut sums = Sums::default();
        blocks.for_each(|(stack, bytes)| _ = sums.hold(stack, bytes));
        sums.look_for_peak(0);
        sums
    }

    /// Creates sums from those of a run, without what is live.
    pub(super) fn of_run(run: &RunSums) -> Sums {
        let number = 1;
        let sum = |of: &StackSum| {
            let StackSum { n_blocks, bytes, peak_bytes, live_bytes, .. } = *of;
            let at_peak = Held { n_blocks: of.n_at_peak, bytes: of.bytes_at_peak };
            let held = Held::default();
            (of.stack, Sum { n_blocks, bytes, live_bytes, peak_bytes, held, at_peak, peak_number: number })
        };
        let bytes = run.stacks.iter().map(|of| of.bytes_at_peak).fold(0, u64::saturating_add);
        let peak =
            Peak { bytes, time_us: run.peak_us.unwrap_or(0), number, is_unknown: run.peak_us.is_none() };
        Sums { stacks: run.stacks.iter().map(sum).collect(), live_bytes: 0, peak }
    }

    /// Adds a live block that the sums already count as allocated.
    pub(super) fn hold_again(&mut self, stack: StackId, bytes: u64) -> Counted {
        let is_unknown = self.peak.is_unknown;
        let sum = self.hold(stack, bytes);
        if is_unknown {
            // The sums have only what was allocated.
            sum.allocate(bytes);
        }
        if sum.live_bytes > 0 || bytes == 0 { Counted::Allocated } else { Counted::Live }
    }

    /// Counts an allocation.
    pub(super) fn allocate(&mut self, stack: StackId, bytes: u64, time_us: u64) {
        let sum = self.hold(stack, bytes);
        sum.allocate(bytes);
        sum.n_blocks = sum.n_blocks.saturating_add(1);
        sum.bytes = sum.bytes.saturating_add(bytes);
        self.look_for_peak(time_us);
    }

    /// Removes a block from what is live.
    pub(super) fn let_go(&mut self, stack: StackId, bytes: u64, counted: Counted) {
        if counted == Counted::Nothing {
            return;
        }
        let number = self.peak.number;
        if let Some(sum) = self.stacks.get_mut(&stack) {
            sum.set_peak_aside(number);
            sum.held.n_blocks = sum.held.n_blocks.saturating_sub(1);
            sum.held.bytes = sum.held.bytes.saturating_sub(bytes);
            if counted == Counted::Allocated {
                sum.live_bytes = sum.live_bytes.saturating_sub(bytes);
            }
        }
        self.live_bytes = self.live_bytes.saturating_sub(bytes);
    }

    /// Returns the sums of the stacks that allocated, or had memory at the peak.
    pub(super) fn run(&self) -> RunSums {
        let sum = |(&stack, sum): (&StackId, &Sum)| {
            let Sum { n_blocks, bytes, live_bytes, peak_bytes, .. } = *sum;
            let Held { n_blocks: n_at_peak, bytes: bytes_at_peak } = sum.at_peak(self.peak.number);
            StackSum { stack, n_blocks, bytes, live_bytes, peak_bytes, n_at_peak, bytes_at_peak }
        };
        let is_used = |sum: &StackSum| sum.n_blocks > 0 || sum.n_at_peak > 0;
        let peak_us = (!self.peak.is_unknown).then_some(self.peak.time_us);
        RunSums { stacks: self.stacks.iter().map(sum).filter(is_used).collect(), peak_us }
    }

    /// Adds a block to what is live.
    fn hold(&mut self, stack: StackId, bytes: u64) -> &mut Sum {
        self.live_bytes = self.live_bytes.saturating_add(bytes);
        let number = self.peak.number;
        let sum = match self.stacks.entry(stack) {
            Entry::Occupied(sum) => sum.into_mut(),
            // It had nothing at the peak.
            Entry::Vacant(place) => place.insert(Sum { peak_number: number, ..Sum::default() }),
        };
        sum.set_peak_aside(number);
        sum.held.n_blocks = sum.held.n_blocks.saturating_add(1);
        sum.held.bytes = sum.held.bytes.saturating_add(bytes);
        sum
    }

    fn look_for_peak(&mut self, time_us: u64) {
        let Peak { bytes, number, is_unknown, .. } = self.peak;
        if self.live_bytes > bytes {
            self.peak = Peak { bytes: self.live_bytes, time_us, number: number + 1, is_unknown };
        }
    }
}

impl Sum {
    fn allocate(&mut self, bytes: u64) {
        self.live_bytes = self.live_bytes.saturating_add(bytes);
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
    }

    /// Saves the memory at the peak with this number, before it changes.
    fn set_peak_aside(&mut self, number: u64) {
        (self.at_peak, self.peak_number) = (self.at_peak(number), number);
    }

    fn at_peak(&self, number: u64) -> Held {
        if self.peak_number == number { self.at_peak } else { self.held }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::process::testing::random::Random;

    /// Returns the blocks and bytes that each stack had at the peak.
    fn at_peak(run: &RunSums) -> BTreeMap<StackId, (u64, u64)> {
        let had = run.stacks.iter().filter(|sum| sum.n_at_peak > 0);
        had.map(|sum| (sum.stack, (sum.n_at_peak, sum.bytes_at_peak))).collect()
    }

    /// The oracle copies everything at each new peak. In between, the sums are restored, as by a keeper that starts.
    #[test]
    fn stacks_have_what_a_copy_at_the_peak_has() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let mut live: Vec<(StackId, u64, Counted)> = (0..random.below(4))
                .map(|_| (StackId(random.below(3) as u32), 1 + random.below(8), Counted::Live))
                .collect();
            let mut sums = Sums::of_before(live.iter().map(|(stack, bytes, _)| (*stack, *bytes)));
            let copy = |live: &[(StackId, u64, Counted)]| {
                let mut all: BTreeMap<StackId, (u64, u64)> = BTreeMap::new();
                for (stack, bytes, _) in live {
                    let of = all.entry(*stack).or_default();
                    *of = (of.0 + 1, of.1 + bytes);
                }
                all
            };
            let total =
                |live: &[(StackId, u64, Counted)]| live.iter().map(|(_, bytes, _)| bytes).sum::<u64>();
            let (mut most, mut known, mut when) = (total(&live), copy(&live), 0);
            for time_us in 1..200 {
                if random.chance(2) || live.is_empty() {
                    // Stacks of later ones are others, so that each has blocks of one kind.
                    let (stack, bytes) = (StackId(10 + random.below(4) as u32), 1 + random.below(99));
                    live.push((stack, bytes, Counted::Allocated));
                    sums.allocate(stack, bytes, time_us);
                } else {
                    let (stack, bytes, counted) = live.swap_remove(random.index(live.len()));
                    sums.let_go(stack, bytes, counted);
                }
                if total(&live) > most {
                    (most, known, when) = (total(&live), copy(&live), time_us);
                }
                if random.chance(20) && !sums.run().stacks.is_empty() {
                    sums = Sums::of_run(&sums.run());
                    for (stack, bytes, counted) in &live {
                        assert_eq!(sums.hold_again(*stack, *bytes), *counted, "{seed}");
                    }
                }
                let run = sums.run();
                assert_eq!((at_peak(&run), run.peak_us), (known.clone(), Some(when)), "{seed}, {time_us}");
            }
        }
    }
}
