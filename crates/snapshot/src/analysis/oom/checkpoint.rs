//! The call whose checkpoint would free most of the activations at a failed request.
//!
//! A checkpoint frees what each call leaves when the call is over, but for its result, and one call at a time makes it again in the
//! backward pass. So it frees something only of a call that was made several times, such as that of a layer.

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
    /// What of the calls that are over it frees.
    freed_bytes: u64,
    /// What the largest of them makes again.
    again_bytes: u64,
    n_over: u32,
    open: OpenCall,
}

impl Calls {
    /// Adds the blocks of a call that is over: the newest is its result.
    fn add(&mut self, blocks: &[(StackIndex, u64)]) {
        let Some((_, left)) = blocks.split_last() else { return };
        let freed = left.iter().fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes));
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
        let mut paths = CallPaths::default();
        let mut calls: SeededMap<FrameIndex, Calls> = SeededMap::default();
        let activations = self.live_activations();
        for (place, (stack, _)) in activations.iter().enumerate() {
            let frames = stacks.members(*stack);
            for (at, frame) in frames.iter().enumerate() {
                // Of a recursion the outermost call counts.
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
