//! Changes a run so that what a call leaves is freed when the call is over, and requested again before the recorded run
//! frees it.
//!
//! Memory does not show when a block is used, so the moments are those of a checkpoint. A call is over with the last
//! request below it; its last block is its result and remains. The backward pass starts with the requests that lead to
//! the first free of what the call left. The tenth that is freed first does not count, such as a cache that the program
//! drops earlier.

use std::{collections::BTreeMap, ops::Range};

use memreel_snapshot::history::OpenCall;

use super::step::{SlotIndex, Step};

/// The percentage of the bytes that may be freed before the backward pass.
const EARLY_HUNDREDTHS: u64 = 10;

/// Returns the steps of the changed program, and how many additional slots they have; `None` if no call leaves anything
/// that is freed later. `below` numbers the calls below the changed one that lead to a request.
pub(super) fn freed_after_use(
    steps: &[Step],
    n_slots: usize,
    below: impl Fn(&Step) -> Option<u32>,
) -> Option<(Vec<Step>, usize)> {
    let frees = frees(steps, n_slots);
    let mut inserted: BTreeMap<usize, Vec<Step>> = BTreeMap::new();
    let mut n_more = 0;
    for range in calls(steps, below) {
        let call = Call { steps, frees: &frees, range, n_slots };
        let Some((left, again_at)) = call.left() else { continue };
        inserted.entry(call.range.end).or_default().extend(left.iter().filter_map(|at| call.free(*at)));
        inserted.entry(again_at).or_default().extend(call.again(&left));
        n_more = n_more.max(call.range.len());
    }
    let mut changed = Vec::with_capacity(steps.len() * 2);
    for (at, step) in steps.iter().enumerate() {
        changed.extend(inserted.get(&at).into_iter().flatten());
        changed.push(*step);
    }
    (!inserted.is_empty()).then_some((changed, n_more))
}

/// Returns the step at which the block of each request is freed, by the step of the request; the number of steps for a
/// block that is not freed.
fn frees(steps: &[Step], n_slots: usize) -> Vec<usize> {
    let mut frees = vec![steps.len(); steps.len()];
    let mut requested = vec![None; n_slots];
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Alloc { slot, .. } => requested[*slot as usize] = Some(at),
            Step::Free { slot, .. } | Step::FreeLater { slot, .. } => {
                if let Some(of) = requested[*slot as usize].take() {
                    frees[of] = at;
                }
            }
            _ => {}
        }
    }
    frees
}

/// Returns the steps of each call, up to the next request outside it. A call is also over when its first request is
/// made again.
fn calls(steps: &[Step], below: impl Fn(&Step) -> Option<u32>) -> Vec<Range<usize>> {
    let is_request = |at: &usize| matches!(steps[*at], Step::Alloc { .. } | Step::Fail { .. });
    let requests: Vec<usize> = (0..steps.len()).filter(is_request).collect();
    let (mut calls, mut open) = (Vec::new(), OpenCall::default());
    for (place, at) in requests.iter().enumerate() {
        calls.extend(below(&steps[*at]).and_then(|path| open.add(place, path)));
    }
    calls.extend(open.end());
    let steps_of = |call: Range<usize>| Some(requests[call.start]..*requests.get(call.end)?);
    calls.into_iter().filter_map(steps_of).collect()
}

/// One call.
struct Call<'a> {
    steps: &'a [Step],
    frees: &'a [usize],
    range: Range<usize>,
    n_slots: usize,
}

impl Call<'_> {
    /// Returns the requests of the blocks that the call leaves until the backward pass, and the step where that starts.
    fn left(&self) -> Option<(Vec<usize>, usize)> {
        let is_left = |at: &usize| self.block(*at).is_some() && self.frees[*at] >= self.range.end;
        let mut left: Vec<usize> = self.range.clone().filter(is_left).collect();
        left.pop()?;
        left.retain(|at| self.frees[*at] < self.steps.len());
        left.sort_by_key(|at| self.frees[*at]);
        let bytes = |at: &usize| self.block(*at).map_or(0, |(bytes, _)| bytes);
        let total = left.iter().fold(0_u64, |sum, at| sum.saturating_add(bytes(at)));
        let mut sum = 0_u64;
        let n_early = left.iter().take_while(|at| {
            sum = sum.saturating_add(bytes(at));
            sum <= total / 100 * EARLY_HUNDREDTHS
        });
        let n_early = n_early.count();
        let first_free = self.frees[*left.get(n_early)?];
        // Requests since the free before it may need what is freed: they belong to the backward pass.
        let is_free = |step: &Step| matches!(step, Step::Free { .. } | Step::Complete { .. });
        let before = self.steps[self.range.end..first_free].iter().rposition(is_free);
        let again_at = before.map_or(self.range.end, |at| self.range.end + at + 1);
        Some((left.split_off(n_early), again_at))
    }

    fn block(&self, at: usize) -> Option<(u64, SlotIndex)> {
        match self.steps[at] {
            Step::Alloc { request, slot } => Some((request.bytes, slot)),
            _ => None,
        }
    }

    /// Returns the free of a block at the end of the call.
    fn free(&self, at: usize) -> Option<Step> {
        let (_, slot) = self.block(at)?;
        Some(Step::Free { slot, entry: u32::try_from(self.steps[at].entry()).ok()? })
    }

    /// Returns the steps of the call once more, up to the last block that it left: PyTorch stops there. What it `left`
    /// takes its slots again and is freed where it was; anything else in use at that point is freed.
    fn again(&self, left: &[usize]) -> Vec<Step> {
        let mut again = Vec::new();
        let mut slots: BTreeMap<SlotIndex, SlotIndex> = BTreeMap::new();
        let last = left.iter().max().map_or(self.range.start, |last| last + 1);
        for (n, at) in (self.range.start..last).enumerate() {
            match self.steps[at] {
                Step::Alloc { request, slot } if left.contains(&at) => {
                    again.push(Step::Alloc { request, slot })
                }
                Step::Alloc { request, slot } => {
                    // Steps have fewer slots than entries, of which there are fewer than 2^32.
                    let new = u32::try_from(self.n_slots + n).unwrap_or(u32::MAX);
                    slots.insert(slot, new);
                    again.push(Step::Alloc { request, slot: new });
                }
                Step::Free { slot, entry } | Step::FreeLater { slot, entry } => {
                    again.extend(slots.remove(&slot).map(|slot| Step::Free { slot, entry }));
                }
                Step::Complete { .. } | Step::Fail { .. } | Step::EmptyCache { .. } => {}
            }
        }
        let entry = u32::try_from(self.steps[self.range.start].entry()).unwrap_or(u32::MAX);
        again.extend(slots.into_values().map(|slot| Step::Free { slot, entry }));
        again
    }
}
