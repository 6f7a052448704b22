//! Finds whether everything that was allocated meanwhile was within one call: of a module, a backward pass, an
//! optimizer's step, or code that loads weights or captures a graph. The loop over layers or parameters in such a call
//! does not repeat a step.

use std::{
    cell::{OnceCell, RefCell},
    ops::Range,
    rc::Rc,
};

use super::{
    again::Again,
    least::Least,
    walk::{Change, Walk},
};
use crate::{
    analysis::{DeviceHistory, Made, frames::is_way_back, sites::SameCalls},
    model::{FrameIndex, StackIndex, StackTable},
    words::SeededMap,
};

/// Finds which calls a part of a walk is within. Each site that grew is a part, so no part is examined as a whole.
pub(super) struct Calls<'h, 'a> {
    history: &'h DeviceHistory<'a>,
    walk: &'h Walk,
    same: SameCalls<'h, 'a>,
    /// The places of the allocations with a stack, and of those without one.
    framed: Vec<u32>,
    unframed: Vec<u32>,
    /// The places of the allocations with a stack outside the backward pass.
    forth: OnceCell<Vec<u32>>,
    has_stacks: OnceCell<bool>,
    shared: OnceCell<Shared>,
    /// By the frames up to the first call of a module, the places of the allocations in it.
    heads: OnceCell<SeededMap<Box<[FrameIndex]>, Vec<u32>>>,
    again: RefCell<SeededMap<Box<[FrameIndex]>, Rc<Again>>>,
}

/// By allocation with a stack, how many of its outermost frames the previous one shares. A whole part shares the
/// minimum of these.
struct Shared {
    lines: Least<u32>,
    functions: Least<u32>,
}

impl<'h, 'a> Calls<'h, 'a> {
    pub(super) fn new(history: &'h DeviceHistory<'a>, walk: &'h Walk) -> Calls<'h, 'a> {
        let allocs = (0..).zip(&walk.changes).filter(|(_, change)| change.is_alloc);
        let (framed, unframed): (Vec<_>, Vec<_>) = allocs.partition(|(_, change)| framed(change).is_some());
        let places = |all: Vec<(u32, &Change)>| all.into_iter().map(|(place, _)| place).collect();
        Calls {
            history,
            walk,
            same: SameCalls::new(history),
            framed: places(framed),
            unframed: places(unframed),
            forth: OnceCell::new(),
            has_stacks: OnceCell::new(),
            shared: OnceCell::new(),
            heads: OnceCell::new(),
            again: RefCell::default(),
        }
    }

    /// Returns the call in which all allocations between two places of the walk were made; `None` if there is none.
    pub(super) fn around(&self, from: usize, to: usize) -> Option<Made> {
        let [framed, unframed] = [&self.framed, &self.unframed].map(|places| within(places, from, to));
        if framed.is_empty() {
            return self.of_no_stacks(unframed.len());
        }
        // Checkpoints compute activations again in the backward pass: that is not a repetition.
        if within(self.forth.get_or_init(|| self.forth()), from, to).is_empty() {
            return Some(Made::Gradients);
        }
        let stacks = &self.history.snapshot().stacks;
        let first: Vec<FrameIndex> = self.outermost(self.stack(framed.start)).collect();
        // The calls outside of the first one that makes something.
        let n_unmade = first.iter().position(|frame| Made::by(stacks.frame(*frame)).is_some())?;
        let shared = self.shared.get_or_init(|| self.shared());
        let [n_lines, n_functions] = [&shared.lines, &shared.functions].map(|least| {
            least.of(framed.start + 1..framed.end).map_or(first.len(), |n| first.len().min(n as usize))
        });
        if n_functions <= n_unmade {
            return None;
        }
        let shared = &first[..n_lines];
        let made = self.of_frames(shared).or_else(|| self.of_functions(&first[n_lines..n_functions]));
        let made = made.or_else(|| self.of_loop(from, to, shared));
        // An allocation without a stack among those of a forward call is from the backward pass, so the call is over.
        made.filter(|made| *made != Made::Activations || unframed.is_empty())
    }

    /// Returns the stack of an allocation that has one, by its number among them.
    fn stack(&self, number: usize) -> StackIndex {
        framed(&self.walk.changes[self.framed[number] as usize]).unwrap_or(StackTable::EMPTY)
    }

    /// Returns the places of the allocations outside the backward pass.
    fn forth(&self) -> Vec<u32> {
        let stacks = &self.history.snapshot().stacks;
        let mut known: SeededMap<StackIndex, bool> = SeededMap::default();
        let mut is_back = |number: usize| {
            let stack = self.stack(number);
            let frames = || self.outermost(stack).map(|frame| stacks.frame(frame));
            *known.entry(stack).or_insert_with(|| is_way_back(frames()))
        };
        (0..self.framed.len()).filter(|n| !is_back(*n)).map(|n| self.framed[n]).collect()
    }

    /// Compares each stack with the previous one.
    fn shared(&self) -> Shared {
        let mut before = None;
        let pairs = (0..self.framed.len()).map(|number| {
            let stack = self.stack(number);
            match before.replace(stack) {
                Some(before) if before != stack => self.in_common(before, stack),
                _ => [u32::MAX; 2],
            }
        });
        let (lines, functions): (Vec<u32>, Vec<u32>) =
            pairs.map(|[lines, functions]| (lines, functions)).unzip();
        Shared { lines: Least::new(&lines), functions: Least::new(&functions) }
    }

    /// Returns how many outermost frames two stacks have in common: by their lines, and by their functions.
    fn in_common(&self, one: StackIndex, other: StackIndex) -> [u32; 2] {
        let (mut n_lines, mut n_functions, mut are_lines) = (0, 0, true);
        for (one, other) in self.outermost(one).zip(self.outermost(other)) {
            are_lines &= one == other;
            if one != other && !self.is_same_function(one, other) {
                break;
            }
            n_lines += u32::from(are_lines);
            n_functions += 1;
        }
        [n_lines, n_functions]
    }

    fn is_same_function(&self, one: FrameIndex, other: FrameIndex) -> bool {
        let stacks = &self.history.snapshot().stacks;
        let [one, other] = [one, other].map(|frame| stacks.frame(frame));
        one.name == other.name && one.filename == other.filename
    }

    /// Other lines of one function are other parts of one call, unless it is a forward: nothing else ran between them.
    fn of_functions(&self, shared: &[FrameIndex]) -> Option<Made> {
        let stacks = &self.history.snapshot().stacks;
        shared
            .iter()
            .find_map(|frame| Made::by(stacks.frame(*frame)).filter(|made| *made != Made::Activations))
    }

    /// If everything is within calls of one module, it may be one call that contains this loop. It is if earlier
    /// allocating lines of that call do not allocate again, because another call would run them too.
    fn of_loop(&self, from: usize, to: usize, shared: &[FrameIndex]) -> Option<Made> {
        let stacks = &self.history.snapshot().stacks;
        let made = Made::by(stacks.frame(*shared.last()?))?;
        let again = self.again.borrow().get(shared).cloned();
        let again = again.unwrap_or_else(|| {
            let again = Rc::new(self.lines_within(shared));
            self.again.borrow_mut().insert(shared.into(), again.clone());
            again
        });
        again.is_left_before(from, to).then_some(made)
    }

    /// Returns the allocating lines of a module's call. No call outside it is one.
    fn lines_within(&self, call: &[FrameIndex]) -> Again {
        let heads = self.heads.get_or_init(|| self.heads());
        let places = self.head(call.iter().copied()).and_then(|head| heads.get(&head));
        let line = |place: &u32| {
            let mut frames = self.outermost(framed(&self.walk.changes[*place as usize])?);
            let is_within = call.iter().all(|frame| frames.next() == Some(*frame));
            Some((*place, frames.next().filter(|_| is_within)?))
        };
        Again::new(&places.into_iter().flatten().filter_map(line).collect::<Vec<_>>())
    }

    /// Returns the places of the allocations in each outermost call of a module.
    fn heads(&self) -> SeededMap<Box<[FrameIndex]>, Vec<u32>> {
        let mut heads: SeededMap<Box<[FrameIndex]>, Vec<u32>> = SeededMap::default();
        for number in 0..self.framed.len() {
            if let Some(head) = self.head(self.outermost(self.stack(number))) {
                heads.entry(head).or_default().push(self.framed[number]);
            }
        }
        heads
    }

    /// Returns the frames until the first call of a module.
    fn head(&self, mut outermost: impl Iterator<Item = FrameIndex>) -> Option<Box<[FrameIndex]>> {
        let stacks = &self.history.snapshot().stacks;
        let mut head = Vec::new();
        loop {
            let frame = outermost.next()?;
            head.push(frame);
            if Made::passes_on(stacks.frame(frame)) {
                return Some(head.into());
            }
        }
    }

    /// Returns the Python frames of a stack, outermost first, or all frames if it has none: between them, compiled
    /// frames have no fixed places.
    fn outermost(&self, stack: StackIndex) -> impl Iterator<Item = FrameIndex> + '_ {
        let stacks = &self.history.snapshot().stacks;
        let is_python = |frame: FrameIndex| stacks.frame(frame).filename.ends_with(".py");
        let has_python = self.same.all(stack).any(is_python);
        self.same.all(stack).rev().filter(move |frame| !has_python || is_python(*frame))
    }

    /// Threads of the backward pass have no Python frames: if other allocations have stacks, many without one are
    /// gradients.
    fn of_no_stacks(&self, n: usize) -> Option<Made> {
        let is_framed = |stack: Option<StackIndex>| stack.is_some_and(|stack| stack != StackTable::EMPTY);
        let has_stacks = || self.history.lives().iter().any(|life| is_framed(life.stack));
        (n > 0 && *self.has_stacks.get_or_init(has_stacks)).then_some(Made::Gradients)
    }

    /// Returns the innermost of these calls, outermost first, without the last one if only its own frames differ,
    /// because another call of it may have followed.
    fn of_frames(&self, shared: &[FrameIndex]) -> Option<Made> {
        let stacks = &self.history.snapshot().stacks;
        let mut frames =
            shared.iter().map(|frame| stacks.frame(*frame)).rev().skip_while(|frame| Made::passes_on(frame));
        frames.find_map(Made::by)
    }
}

/// Returns which of some places are in a stretch.
fn within(places: &[u32], from: usize, to: usize) -> Range<usize> {
    let [from, to] = [from, to.max(from)].map(|end| places.partition_point(|place| (*place as usize) < end));
    from..to
}

fn framed(change: &Change) -> Option<StackIndex> {
    change.stack.filter(|stack| *stack != StackTable::EMPTY)
}
