//! The frames that are shown: those that the viewer and PyTorch's tool show (`docs/snapshot-format.md` 3.4).

use crate::snapshot::{Frame, FrameIndex, Snapshot, StackIndex, StackTable};

/// Parts of the names of functions of the interpreter and of PyTorch's recorder.
const HIDDEN_NAMES: [&str; 8] = [
    "unwind::unwind",
    "CapturedTraceback::gather",
    "gather_with_cpp",
    "_start",
    "__libc_start_main",
    "PyEval_",
    "PyObject_",
    "PyFunction_",
];

/// Parts of the paths of their source files.
const HIDDEN_FILES: [&str; 10] = [
    "core/boxing",
    "/Register",
    "/Redispatch",
    "pythonrun.c",
    "Modules/main.c",
    "Objects/call.c",
    "Objects/methodobject.c",
    "pycore_ceval.h",
    "ceval.c",
    "cpython/abstract.h",
];

/// A part of the names of functions of PyTorch's allocator.
const PASSES_ON: &str = "CUDACachingAllocator";

/// Returns whether a frame is shown.
///
/// As in the viewer, parts of texts decide: a function with the name `warm_start` is hidden too.
#[must_use]
pub fn is_shown(name: &str, filename: &str) -> bool {
    !HIDDEN_NAMES.iter().any(|part| name.contains(part))
        && !HIDDEN_FILES.iter().any(|part| filename.contains(part))
}

/// Returns the part of a path after its last slash.
#[must_use]
pub fn base_name(filename: &str) -> &str {
    filename.rsplit('/').next().unwrap_or(filename)
}

/// How well a frame identifies the code that allocated, from the least to the most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Identity {
    Hidden,
    /// Every allocation passes through it.
    PassesOn,
    /// Below Python it is the same for every allocation.
    Native,
    Python,
}

impl Identity {
    fn new(frame: &Frame) -> Identity {
        let Frame { name, filename, .. } = frame;
        let is_module =
            matches!(&**name, "_call_impl" | "_wrapped_call_impl") && filename.ends_with("module.py");
        if !is_shown(name, filename) {
            Identity::Hidden
        } else if is_module || name.contains(PASSES_ON) || name.starts_with("at::detail::empty_") {
            Identity::PassesOn
        } else if filename.ends_with(".py") || filename.starts_with('<') && filename.ends_with('>') {
            Identity::Python
        } else {
            Identity::Native
        }
    }
}

/// Returns what an invented name for a frame must contain so that it is shown, or hidden, like the frame.
pub(crate) fn mark(frame: &Frame) -> &'static str {
    match Identity::new(frame) {
        Identity::Hidden => HIDDEN_NAMES[0],
        Identity::PassesOn => PASSES_ON,
        Identity::Native | Identity::Python => "",
    }
}

/// The shown frames of one snapshot, determined once.
#[derive(Debug)]
pub struct ShownFrames<'a> {
    stacks: &'a StackTable,
    identities: Vec<Identity>,
}

impl<'a> ShownFrames<'a> {
    /// Determines for every frame of a snapshot whether it is shown.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot) -> ShownFrames<'a> {
        let stacks = &snapshot.stacks;
        ShownFrames { stacks, identities: stacks.all_frames().map(Identity::new).collect() }
    }

    /// Returns the indices of a stack's shown frames, innermost first.
    pub fn members(&self, stack: StackIndex) -> impl DoubleEndedIterator<Item = FrameIndex> + '_ {
        let is_shown = |frame: &FrameIndex| self.identities[frame.index()] > Identity::Hidden;
        self.stacks.members(stack).iter().copied().filter(is_shown)
    }

    /// Returns the shown frames of a stack that identify the code that allocated, innermost first: the
    /// Python frames if there are any, otherwise those that do more than pass an allocation on, otherwise
    /// all shown frames.
    pub fn identifying(&self, stack: StackIndex) -> impl DoubleEndedIterator<Item = FrameIndex> + '_ {
        let kind = |frame: &FrameIndex| self.identities[frame.index()];
        let most = self.members(stack).map(|frame| kind(&frame)).max();
        self.members(stack).filter(move |frame| Some(kind(frame)) == most)
    }

    /// Returns the frames of [`ShownFrames::identifying`].
    pub fn identifying_frames(&self, stack: StackIndex) -> impl DoubleEndedIterator<Item = &'a Frame> + '_ {
        self.identifying(stack).map(|frame| self.stacks.frame(frame))
    }

    /// Returns a stack's shown frames, innermost first.
    pub fn frames(&self, stack: StackIndex) -> impl DoubleEndedIterator<Item = &'a Frame> + '_ {
        self.members(stack).map(|frame| self.stacks.frame(frame))
    }

    /// Returns whether a stack has frames, shown or hidden.
    #[must_use]
    pub fn has_frames(&self, stack: StackIndex) -> bool {
        !self.stacks.members(stack).is_empty()
    }
}
