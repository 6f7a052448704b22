//! Stores stacks within a value: a list of frames and, for each stack, the places of its frames in it, innermost first.

use super::{FrameIndex, Snapshot, StackIndex, Value, frame_value, stack_from_value};
use crate::words::SeededMap;

/// Frames that are written once.
pub(super) struct FrameWriter<'a> {
    snapshot: &'a Snapshot,
    places: SeededMap<FrameIndex, usize>,
    frames: Vec<Value>,
}

impl<'a> FrameWriter<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> FrameWriter<'a> {
        FrameWriter { snapshot, places: SeededMap::default(), frames: Vec::new() }
    }

    /// Returns a list of figures and the places of a stack's frames.
    pub(super) fn stack(&mut self, figures: impl IntoIterator<Item = u64>, stack: StackIndex) -> Value {
        let Snapshot { stacks, shapes, .. } = self.snapshot;
        let places = stacks.members(stack).iter().map(|frame| {
            let new = self.places.len();
            let place = *self.places.entry(*frame).or_insert(new);
            if place == new {
                self.frames.push(frame_value(stacks.frame(*frame), shapes));
            }
            place as u64
        });
        Value::List(figures.into_iter().chain(places).map(Value::unsigned).collect())
    }

    /// Returns the list of frames.
    pub(super) fn frames(self) -> Value {
        Value::List(self.frames.into())
    }
}

/// Reads frames into a separate snapshot, which has the stacks.
pub(super) struct FrameReader {
    pub(super) stacks: Snapshot,
    frames: Vec<FrameIndex>,
}

impl FrameReader {
    /// Returns the frames of a list; `None` if it is not one.
    pub(super) fn of(frames: &Value) -> Option<FrameReader> {
        let mut stacks = Snapshot::default();
        let frames = frames.as_elements()?.iter().map(|frame| frame_of(frame, &mut stacks));
        let frames = frames.collect::<Option<_>>()?;
        Some(FrameReader { stacks, frames })
    }

    /// Returns the figures and the stack of a list; `None` if it is not one.
    pub(super) fn stack<const N: usize>(&mut self, value: &Value) -> Option<([u64; N], StackIndex)> {
        let (figures, places) = value.as_elements()?.split_first_chunk::<N>()?;
        let mut numbers = [0; N];
        for (number, figure) in numbers.iter_mut().zip(figures) {
            *number = figure.as_unsigned()?;
        }
        let frame = |place: &Value| self.frames.get(usize::try_from(place.as_unsigned()?).ok()?).copied();
        let members: Vec<FrameIndex> = places.iter().map(frame).collect::<Option<_>>()?;
        Some((numbers, self.stacks.stacks.intern_stack(&members)))
    }
}

fn frame_of(frame: &Value, Snapshot { stacks, shapes, .. }: &mut Snapshot) -> Option<FrameIndex> {
    let stack = stack_from_value(&Value::List([frame.clone()].into()), stacks, shapes)?;
    stacks.members(stack).first().copied()
}
