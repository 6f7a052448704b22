//! Finds the frames of stacks that viewers show, and those that identify the code that allocated.

use std::{ops::RangeInclusive, sync::Arc};

use serde::Serialize;

use super::{
    owner::is_own,
    role::{FileFacts, NameFacts, role},
    role_rules::Role,
    viewer_filter::is_shown,
};
use crate::{
    history::TextIds,
    model::{Frame, FrameIndex, Shape, Snapshot, StackIndex, StackTable},
    words::SeededMap,
};

/// The text in place of a stack, for blocks that have none.
pub const NO_STACK: &str = "(no stack)";

/// The text in a history in which only blocks of a backward pass have none.
pub(crate) const IN_BACKWARD: &str = "(no Python stack, e.g. in backward)";

/// The frames of one snapshot, judged once: which of them viewers show, and which identify an allocation.
///
/// A clone shares the judgements.
#[derive(Clone, Debug)]
pub struct ShownFrames<'a> {
    stacks: &'a StackTable,
    judged: Arc<[JudgedFrame]>,
    no_stack: &'static str,
}

/// A frame's judgements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JudgedFrame {
    is_shown: bool,
    role: Role,
}

/// A frame of a stack, with whether it identifies the code that allocated; it serialises with the keys
/// `name`, `filename`, `line` and `is_shown`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct MarkedFrame<'a> {
    /// The frame.
    #[serde(flatten)]
    pub frame: &'a Frame,
    /// Whether it is one of [`ShownFrames::identifying`], which reports show.
    pub is_shown: bool,
}

impl<'a> ShownFrames<'a> {
    /// Judges every frame of a snapshot.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot) -> ShownFrames<'a> {
        ShownFrames::judged(snapshot, judge(snapshot))
    }

    /// Takes the judgements of a snapshot's frames.
    pub(crate) fn judged(snapshot: &'a Snapshot, judged: Arc<[JudgedFrame]>) -> ShownFrames<'a> {
        ShownFrames { stacks: &snapshot.stacks, judged, no_stack: NO_STACK }
    }

    /// Sets the text for blocks without a stack.
    pub(crate) fn with_no_stack(self, no_stack: &'static str) -> ShownFrames<'a> {
        ShownFrames { no_stack, ..self }
    }

    /// Returns the text in place of a stack, for blocks that have none: `(no stack)`, or `(before the recording)` in a
    /// history in which only blocks from before it have none
    /// ([`DeviceHistory::shown_frames`](crate::analysis::DeviceHistory)).
    #[must_use]
    pub fn no_stack(&self) -> &'static str {
        self.no_stack
    }

    /// Returns the indices of the frames of a stack that viewers show, innermost first.
    pub fn members(&self, stack: StackIndex) -> impl DoubleEndedIterator<Item = FrameIndex> + '_ {
        let is_shown = |frame: &FrameIndex| self.judged[frame.index()].is_shown;
        self.stacks.members(stack).iter().copied().filter(is_shown)
    }

    /// Returns the frames of a stack that identify the code that allocated, innermost first: the Python frames if there
    /// are any, otherwise those of the program's compiled code. In a stack without either, they are frames of
    /// operators, of allocators, or all frames. A stack with frames has at least one. A recursive call, such as
    /// `Module._apply`, is one frame at every depth.
    pub fn identifying(&self, stack: StackIndex) -> impl DoubleEndedIterator<Item = FrameIndex> + '_ {
        let identifying = self.identifying_roles(stack);
        let members = self.stacks.members(stack);
        let is_one = move |frame: &FrameIndex| identifying.contains(&self.judged[frame.index()].role);
        let all = members.iter().copied().enumerate();
        all.filter(move |(at, frame)| {
            is_one(frame)
                && !members[..*at]
                    .iter()
                    .rev()
                    .find(|inner| is_one(inner))
                    .is_some_and(|inner| self.are_one(*inner, *frame))
        })
        .map(|(_, frame)| frame)
    }

    /// Returns whether two frames are of the same line.
    fn are_one(&self, one: FrameIndex, other: FrameIndex) -> bool {
        let [first, second] = [one, other].map(|frame| self.stacks.frame(frame));
        one == other
            || first.line == second.line && first.name == second.name && first.filename == second.filename
    }

    /// Returns the frames of [`ShownFrames::identifying`].
    pub fn identifying_frames(&self, stack: StackIndex) -> impl DoubleEndedIterator<Item = &'a Frame> + '_ {
        self.identifying(stack).map(|frame| self.stacks.frame(frame))
    }

    /// Returns every stack of the snapshot.
    pub(crate) fn all_stacks(&self) -> impl Iterator<Item = StackIndex> {
        (0..).map(StackIndex).take(self.stacks.len())
    }

    /// Returns the innermost frame of [`ShownFrames::identifying`]; `None` for a stack without frames.
    #[must_use]
    pub fn innermost(&self, stack: StackIndex) -> Option<&'a Frame> {
        self.identifying(stack).next().map(|frame| self.stacks.frame(frame))
    }

    /// Returns the innermost of these frames that is in one of the program's own files; `None` if all are in packages
    /// or compiled code.
    #[must_use]
    pub fn own(&self, stack: StackIndex) -> Option<&'a Frame> {
        self.identifying_frames(stack).find(|frame| is_own(frame))
    }

    /// Returns all frames of a stack, innermost first, and marks those that identify the code that allocated.
    pub fn marked(&self, stack: StackIndex) -> impl DoubleEndedIterator<Item = MarkedFrame<'a>> + '_ {
        let identifying = self.identifying_roles(stack);
        self.stacks.members(stack).iter().map(move |frame| MarkedFrame {
            frame: self.stacks.frame(*frame),
            is_shown: identifying.contains(&self.judged[frame.index()].role),
        })
    }

    fn identifying_roles(&self, stack: StackIndex) -> RangeInclusive<Role> {
        Role::identifying(self.stacks.members(stack).iter().map(|frame| self.judged[frame.index()].role))
    }

    /// Returns the frames of a stack that viewers show, innermost first.
    pub fn frames(&self, stack: StackIndex) -> impl DoubleEndedIterator<Item = &'a Frame> + '_ {
        self.members(stack).map(|frame| self.stacks.frame(frame))
    }

    /// Returns whether a stack has frames, shown or hidden.
    #[must_use]
    pub fn has_frames(&self, stack: StackIndex) -> bool {
        !self.stacks.members(stack).is_empty()
    }
}

/// The prefixes of memreel's own library names. With line tables, their frames have any name.
const OWN_LIBRARIES: &str = "libmemreel";

/// Judges every frame of a snapshot. Many frames share their names and files, each of which is read once.
pub(crate) fn judge(snapshot: &Snapshot) -> Arc<[JudgedFrame]> {
    let mut ids = TextIds::default();
    let (mut names, mut files) = (SeededMap::default(), SeededMap::default());
    let of_own_library =
        |shape: &Shape| shape.text("library").is_some_and(|library| library.starts_with(OWN_LIBRARIES));
    let own: Vec<bool> = snapshot.shapes.iter().map(|(_, shape)| of_own_library(shape)).collect();
    let judged = snapshot.stacks.all_frames().map(|frame| {
        let Frame { name, filename, .. } = frame;
        let is_own = own.get(frame.shape.index()).is_some_and(|is_own| *is_own);
        let (shows_name, name) =
            names.entry(ids.id(name)).or_insert_with(|| (is_shown(name, ""), NameFacts::of(name)));
        let (shows_file, file) = files
            .entry(ids.id(filename))
            .or_insert_with(|| (is_shown("", filename), FileFacts::of(filename)));
        let role = if is_own { Role::Allocator } else { role(name, file) };
        JudgedFrame { is_shown: *shows_name && *shows_file, role }
    });
    judged.collect()
}
