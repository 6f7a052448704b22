//! The call whose checkpoint would free most of the activations at a failed request.
//!
//! A checkpoint frees what each call leaves when the call is over, but for its result, and one call at a time makes it again in the
//! backward pass. So it frees something only of a call that was made several times, such as that of a layer.

use super::explanation::Explanation;
use crate::{
    analysis::{
        Made,
        frames::{IN_BACKWARD, INSTALLED},
        is_own,
    },
    history::Life,
    model::{Frame, FrameIndex, StackIndex},
    words::{SeededMap, paths::with_slashes},
};

/// A call, and what a checkpoint around it would free.
#[derive(Clone, Copy)]
pub(super) struct Checkpoint<'a> {
    pub(super) frame: &'a Frame,
    pub(super) bytes: u64,
}

/// The calls from one frame that are over, and the one that is not yet.
#[derive(Default)]
struct Calls {
    /// What of the calls that are over a checkpoint frees.
    freed_bytes: u64,
    /// What the largest of them makes again.
    again_bytes: u64,
    n_over: u32,
    open: Option<OpenCall>,
}

/// The blocks of a call, so far.
struct OpenCall {
    /// The calls that lead from the frame to the first block.
    first: u32,
    /// Those that lead to the newest one.
    last: u32,
    /// The place of the newest block among all.
    newest: usize,
    bytes: u64,
    newest_bytes: u64,
}

impl Calls {
    fn add(&mut self, place: usize, below: u32, bytes: u64) {
        match &mut self.open {
            // A request that is made again ends the call, but for those that one line makes in a row.
            Some(open) if open.newest + 1 == place && (open.first != below || open.last == below) => {
                open.bytes = open.bytes.saturating_add(bytes);
                (open.newest, open.newest_bytes, open.last) = (place, bytes, below);
            }
            _ => {
                self.end();
                self.open =
                    Some(OpenCall { first: below, last: below, newest: place, bytes, newest_bytes: bytes });
            }
        }
    }

    /// Ends the open call: its newest block is its result.
    fn end(&mut self) {
        let Some(open) = self.open.take() else { return };
        let freed = open.bytes - open.newest_bytes;
        self.freed_bytes = self.freed_bytes.saturating_add(freed);
        self.again_bytes = self.again_bytes.max(freed);
        self.n_over += 1;
    }

    fn bytes(&self) -> u64 {
        if self.n_over < 2 { 0 } else { self.freed_bytes - self.again_bytes }
    }
}

impl Explanation<'_, '_> {
    /// Returns the call of Python whose checkpoint would free most at the failed request; `None` if none would free anything.
    pub(super) fn best_checkpoint(&self) -> Option<Checkpoint<'_>> {
        let stacks = &self.history.snapshot().stacks;
        let mut below: SeededMap<&[FrameIndex], u32> = SeededMap::default();
        let mut calls: SeededMap<FrameIndex, Calls> = SeededMap::default();
        for (place, (stack, bytes)) in self.live_activations().into_iter().enumerate() {
            let frames = stacks.members(stack);
            for (at, frame) in frames.iter().enumerate() {
                // Of a recursion the outermost call counts.
                if frames[at + 1..].contains(frame) || !can_be_checkpointed(stacks.frame(*frame)) {
                    continue;
                }
                let next = u32::try_from(below.len()).unwrap_or(u32::MAX);
                let below = *below.entry(&frames[..=at]).or_insert(next);
                calls.entry(*frame).or_default().add(place, below, bytes);
            }
        }
        let asks =
            |frame: &FrameIndex| self.report.stack.is_some_and(|stack| stacks.members(stack).contains(frame));
        for (frame, calls) in &mut calls {
            // A call in which the request failed is not over.
            if !asks(frame) {
                calls.end();
            }
        }
        let found = calls
            .iter()
            .map(|(frame, calls)| Checkpoint { frame: stacks.frame(*frame), bytes: calls.bytes() });
        let found: Vec<Checkpoint<'_>> = found.filter(|found| found.bytes > 0).collect();
        // Calls within each other free the same.
        let most = found.iter().map(|found| found.bytes).max()?;
        let near = found.into_iter().filter(|found| found.bytes >= most - most / 100);
        near.max_by_key(|Checkpoint { frame, bytes }| {
            (is_own(frame), &*frame.name == "forward", *bytes, &frame.filename, frame.line)
        })
    }

    /// Returns whether the history shows a backward pass, without which a checkpoint frees nothing.
    pub(super) fn has_backward(&self) -> bool {
        let stacks = self.history.lives().iter().filter_map(|life| life.stack);
        self.shown.no_stack() == IN_BACKWARD
            || stacks.into_iter().any(|stack| Made::of(&self.shown, stack) == Some(Made::Gradients))
    }

    /// Returns the stacks and bytes of the activations in use, in the order of their requests.
    fn live_activations(&self) -> Vec<(StackIndex, u64)> {
        let mut made: SeededMap<StackIndex, bool> = SeededMap::default();
        let mut is_activation = |stack: StackIndex| {
            *made.entry(stack).or_insert_with(|| Made::of(&self.shown, stack) == Some(Made::Activations))
        };
        let moment = self.report.totals.moment;
        let is_live = |life: &&Life| life.is_allocated_at(moment) && life.stack.is_some();
        let mut lives: Vec<&Life> = self.history.lives().iter().filter(is_live).collect();
        lives.sort_by_key(|life| life.from);
        let stacks = lives.into_iter().filter_map(|life| Some((life.stack?, life.requested_bytes)));
        stacks.filter(|(stack, _)| is_activation(*stack)).collect()
    }
}

/// Whether a frame is a call of Python that a program could put a checkpoint around: none of PyTorch's own.
fn can_be_checkpointed(frame: &Frame) -> bool {
    let file = with_slashes(&frame.filename);
    let is_of_torch = |folder| file.rsplit_once(folder).is_some_and(|(_, path)| path.starts_with("torch/"));
    let is_of_python = file.ends_with(".py") && &*frame.name != "<module>";
    is_of_python && !Made::passes_on(frame) && !INSTALLED.into_iter().any(is_of_torch)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line that requests two blocks in a row is in one call; made again later, it begins the next one.
    #[test]
    fn a_call_begins_where_its_first_request_is_made_again() {
        let mut calls = Calls::default();
        let layers = [0, 0, 1, 0, 0, 1, 0, 0, 1];
        layers.iter().enumerate().for_each(|(place, below)| calls.add(place, *below, 10));
        calls.end();
        // Each of three layers leaves 20 beside its result, and one of them is made again.
        assert_eq!((calls.n_over, calls.bytes()), (3, 40));
    }
}
