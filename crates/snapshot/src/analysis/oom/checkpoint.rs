//! Finds the call whose checkpoint would free the most activations at a failed request.
//!
//! A checkpoint frees what each call leaves when the call is over, except its result, and the backward pass recreates
//! it one call at a time. So it only helps with a call that is made several times, such as a layer's.

use std::mem;

use super::explanation::Explanation;
use crate::{
    analysis::{
        Made,
        frames::{IN_BACKWARD, INSTALLED},
        is_own,
    },
    history::{CallPaths, Life, OpenCall},
    model::{Frame, FrameIndex, StackIndex},
    words::{SeededMap, paths::with_slashes},
};

/// A call, and what a checkpoint around it would free.
#[derive(Clone, Copy)]
pub(super) struct Checkpoint<'a> {
    pub(super) frame: &'a Frame,
    pub(super) bytes: u64,
}

/// What a checkpoint around the calls from one frame would do.
#[derive(Default)]
struct Calls {
    /// The bytes of the finished calls that a checkpoint frees.
    freed_bytes: u64,
    /// The bytes that the largest of them recreates.
    again_bytes: u64,
    n_over: u32,
    open: Option<OpenCall>,
}

/// The blocks of a call, so far.
struct OpenCall {
    /// The calls that lead from the frame to the first block.
    first: u32,
    /// The requests that lead to the newest block.
    last: u32,
    /// The place of the newest block among all.
    newest: usize,
    bytes: u64,
    newest_bytes: u64,
}

impl Calls {
    fn add(&mut self, place: usize, below: u32, bytes: u64) {
        match &mut self.open {
            // A request that is made again ends the call, unless one line makes both in a row.
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
    /// Returns the Python call whose checkpoint would free the most at the failed request; `None` if none would free
    /// anything.
    pub(super) fn best_checkpoint(&self) -> Option<Checkpoint<'_>> {
        let stacks = &self.history.snapshot().stacks;
        let mut paths = CallPaths::default();
        let mut calls: SeededMap<FrameIndex, Calls> = SeededMap::default();
        let activations = self.live_activations();
        for (place, (stack, _)) in activations.iter().enumerate() {
            let frames = stacks.members(*stack);
            for (at, frame) in frames.iter().enumerate() {
                // In a recursion, the outermost call counts.
                if frames[at + 1..].contains(frame) || !can_be_checkpointed(stacks.frame(*frame)) {
                    continue;
                }
                let calls = calls.entry(*frame).or_default();
                if let Some(over) = calls.open.add(place, paths.number(&frames[..=at])) {
                    calls.add(&activations[over]);
                }
            }
        }
        let asks =
            |frame: &FrameIndex| self.report.stack.is_some_and(|stack| stacks.members(stack).contains(frame));
        for (frame, calls) in &mut calls {
            // A call in which the request failed is not over.
            if let Some(over) = mem::take(&mut calls.open).end().filter(|_| !asks(frame)) {
                calls.add(&activations[over]);
            }
        }
        let found = calls
            .iter()
            .map(|(frame, calls)| Checkpoint { frame: stacks.frame(*frame), bytes: calls.bytes() });
        let found: Vec<Checkpoint<'_>> = found.filter(|found| found.bytes > 0).collect();
        // Nested calls free the same.
        let most = found.iter().map(|found| found.bytes).max()?;
        let near = found.into_iter().filter(|found| found.bytes >= most - most / 100);
        near.max_by_key(|Checkpoint { frame, bytes }| {
            (is_own(frame), &*frame.name == "forward", *bytes, &frame.filename, frame.line)
        })
    }

    /// Returns whether the history shows a backward pass; without one, a checkpoint frees nothing.
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

/// Returns whether a frame is a Python call that a program could put a checkpoint around, which excludes PyTorch's own.
fn can_be_checkpointed(frame: &Frame) -> bool {
    let file = with_slashes(&frame.filename);
    let is_of_torch = |folder| file.rsplit_once(folder).is_some_and(|(_, path)| path.starts_with("torch/"));
    let is_of_python = file.ends_with(".py") && &*frame.name != "<module>";
    is_of_python && !Made::passes_on(frame) && !INSTALLED.into_iter().any(is_of_torch)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line that requests two blocks in a row is in one call; if it requests later again, it starts the next call.
    #[test]
    fn a_call_begins_where_its_first_request_is_made_again() {
        let mut calls = Calls::default();
        let layers = [0, 0, 1, 0, 0, 1, 0, 0, 1];
        layers.iter().enumerate().for_each(|(place, below)| calls.add(place, *below, 10));
        calls.end();
        // Each of three layers leaves 20 in addition to its result, and one of them is recreated.
        assert_eq!((calls.n_over, calls.bytes()), (3, 40));
    }
}
