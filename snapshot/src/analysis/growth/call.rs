//! Whether all that was allocated meanwhile was within one call: of a module, of the way back, of an optimizer's step, of
//! what loads weights or captures a graph. The loop over layers or parameters in such a call repeats no step.

use super::walk::{Change, Walk};
use crate::{
    analysis::{made::Made, same_calls::SameCalls, state::DeviceHistory},
    model::{FrameIndex, StackIndex, StackTable},
    words::SeededSet,
};

/// Finds out which calls a part of a history is within.
pub(super) struct Calls<'h, 'a> {
    history: &'h DeviceHistory<'a>,
    same: SameCalls<'h, 'a>,
}

impl<'h, 'a> Calls<'h, 'a> {
    pub(super) fn new(history: &'h DeviceHistory<'a>) -> Calls<'h, 'a> {
        Calls { history, same: SameCalls::new(history) }
    }

    /// Returns the call that all allocations between two places of a walk were made in; `None` if there is none.
    pub(super) fn around(&self, walk: &Walk, from: usize, to: usize) -> Option<Made> {
        let to = to.min(walk.changes.len());
        let from = from.min(to);
        let allocs =
            || walk.changes.get(from..to).unwrap_or_default().iter().filter(|change| change.is_alloc);
        let (mut first, mut n_lines, mut n_functions): (Option<Vec<FrameIndex>>, usize, usize) = (None, 0, 0);
        let mut last = None;
        for change in allocs() {
            let Some(stack) = framed(change) else { continue };
            if last.replace(stack) == Some(stack) {
                continue;
            }
            let mut frames = self.frames(stack);
            frames.reverse();
            let Some(first) = &first else {
                (n_lines, n_functions) = (frames.len(), frames.len());
                first = Some(frames);
                continue;
            };
            let is_line = |pair: &(&FrameIndex, &FrameIndex)| pair.0 == pair.1;
            n_lines = first[..n_lines].iter().zip(&frames).take_while(is_line).count();
            let is_function =
                |pair: &(&FrameIndex, &FrameIndex)| is_line(pair) || self.is_same_function(*pair.0, *pair.1);
            n_functions = first[..n_functions].iter().zip(&frames).take_while(is_function).count();
            if n_functions == 0 {
                return None;
            }
        }
        let Some(first) = first else { return self.of_no_stacks(allocs().count()) };
        let shared = &first[..n_lines];
        let made = self.of_frames(shared).or_else(|| self.of_functions(&first[n_lines..n_functions]));
        let made = made.or_else(|| self.of_loop(walk, from, to, shared));
        let has_way_back = || allocs().any(|change| framed(change).is_none());
        // An allocation without a stack among those of a forward call is of the way back, so the call is over.
        made.filter(|made| *made != Made::Activations || !has_way_back())
    }

    fn is_same_function(&self, one: FrameIndex, other: FrameIndex) -> bool {
        let stacks = &self.history.snapshot().stacks;
        let [one, other] = [one, other].map(|frame| stacks.frame(frame));
        one.name == other.name && one.filename == other.filename
    }

    /// Other lines of one function are other parts of one call, if it is not a forward: nothing else ran between them.
    fn of_functions(&self, shared: &[FrameIndex]) -> Option<Made> {
        let stacks = &self.history.snapshot().stacks;
        shared
            .iter()
            .find_map(|frame| Made::by(stacks.frame(*frame)).filter(|made| *made != Made::Activations))
    }

    /// Where all is within calls of one module, it may be one call whose loop this is. It is if lines of that call allocated before
    /// that do not allocate again: another call would run them too.
    fn of_loop(&self, walk: &Walk, from: usize, to: usize, shared: &[FrameIndex]) -> Option<Made> {
        let stacks = &self.history.snapshot().stacks;
        let made = Made::by(stacks.frame(*shared.last()?)).filter(|_| !shared.is_empty())?;
        let lines = |places: &[Change]| -> SeededSet<FrameIndex> {
            let stacks: SeededSet<StackIndex> =
                places.iter().filter(|change| change.is_alloc).filter_map(framed).collect();
            let lines = stacks.into_iter().filter_map(|stack| {
                let mut frames = self.frames(stack).into_iter().rev();
                let is_within = shared.iter().all(|frame| frames.next() == Some(*frame));
                if is_within { frames.next() } else { None }
            });
            lines.collect()
        };
        let within = lines(&walk.changes[from..to]);
        let before = lines(&walk.changes[..from]);
        before.iter().any(|line| !within.contains(line)).then_some(made)
    }

    /// Returns the Python frames of a stack, or all if it has none: between them, compiled frames have no certain places.
    fn frames(&self, stack: StackIndex) -> Vec<FrameIndex> {
        let stacks = &self.history.snapshot().stacks;
        let is_python = |frame: &FrameIndex| stacks.frame(*frame).filename.ends_with(".py");
        let python: Vec<FrameIndex> = self.same.all(stack).filter(is_python).collect();
        if python.is_empty() { self.same.all(stack).collect() } else { python }
    }

    /// Threads of the way back have no Python frames: where other allocations have stacks, many without one are gradients.
    fn of_no_stacks(&self, n: usize) -> Option<Made> {
        let is_framed = |stack: Option<StackIndex>| stack.is_some_and(|stack| stack != StackTable::EMPTY);
        let has_stacks = || self.history.lives().iter().any(|life| is_framed(life.stack));
        (n > 0 && has_stacks()).then_some(Made::Gradients)
    }

    /// Returns the innermost of these calls, outermost first, without the last one if only its own frames differ: another call
    /// of it may have followed.
    fn of_frames(&self, shared: &[FrameIndex]) -> Option<Made> {
        let stacks = &self.history.snapshot().stacks;
        let mut frames =
            shared.iter().map(|frame| stacks.frame(*frame)).rev().skip_while(|frame| Made::passes_on(frame));
        frames.find_map(Made::by)
    }
}

fn framed(change: &Change) -> Option<StackIndex> {
    change.stack.filter(|stack| *stack != StackTable::EMPTY)
}
