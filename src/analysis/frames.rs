//! Which frames are worth showing: those that the viewer and PyTorch's tool show (snapshot-format.md 3.4).

use crate::snapshot::{Frame, FrameIndex, Snapshot, StackIndex, Stacks};

/// Parts of names of the interpreter and of the recorder itself.
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

/// Parts of the paths of their sources.
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

/// Whether a frame is shown.
///
/// Parts of texts decide, as in the viewer, so that a function of yours called
/// `warm_start` is hidden too.
#[must_use]
pub fn is_shown(name: &str, filename: &str) -> bool {
    !HIDDEN_NAMES.iter().any(|part| name.contains(part))
        && !HIDDEN_FILES.iter().any(|part| filename.contains(part))
}

/// Whether it is a call that every allocation passes through and that only passes it on.
#[must_use]
pub fn is_wrapper(frame: &Frame) -> bool {
    matches!(&*frame.name, "_call_impl" | "_wrapped_call_impl") && frame.filename.ends_with("module.py")
        || frame.name.contains("CUDACachingAllocator")
        || frame.name.starts_with("at::detail::empty_")
}

/// The part of a path after its last slash.
#[must_use]
pub fn base_name(filename: &str) -> &str {
    filename.rsplit('/').next().unwrap_or(filename)
}

/// The shown frames of one snapshot, found once.
#[derive(Debug)]
pub struct ShownFrames<'a> {
    stacks: &'a Stacks,
    is_shown: Vec<bool>,
}

impl<'a> ShownFrames<'a> {
    /// Looks at every frame.
    #[must_use]
    pub fn of(snapshot: &'a Snapshot) -> ShownFrames<'a> {
        let stacks = &snapshot.stacks;
        let is_shown = stacks.all_frames().map(|frame| is_shown(&frame.name, &frame.filename)).collect();
        ShownFrames { stacks, is_shown }
    }

    /// The numbers of a stack's shown frames, innermost first.
    pub fn members(&self, stack: StackIndex) -> impl DoubleEndedIterator<Item = FrameIndex> + '_ {
        self.stacks.members(stack).iter().copied().filter(|frame| self.is_shown[frame.index()])
    }

    /// A stack's shown frames, innermost first.
    pub fn frames(&self, stack: StackIndex) -> impl DoubleEndedIterator<Item = &'a Frame> + '_ {
        self.members(stack).map(|frame| self.stacks.frame(frame))
    }

    /// The calls that tell whose memory it is, innermost first: of the shown frames those that do more
    /// than to pass a request on, and only those of Python where there are any, because the native ones
    /// below them are the same for every allocation. Where nothing else is left, all shown frames.
    #[must_use]
    pub fn calls(&self, stack: StackIndex) -> Vec<&'a Frame> {
        let all: Vec<&Frame> = self.frames(stack).collect();
        let told: Vec<&Frame> = all.iter().copied().filter(|frame| !is_wrapper(frame)).collect();
        let python: Vec<&Frame> =
            told.iter().copied().filter(|frame| frame.filename.ends_with(".py")).collect();
        match (python.is_empty(), told.is_empty()) {
            (false, _) => python,
            (true, false) => told,
            (true, true) => all,
        }
    }

    /// Whether a stack has frames at all, hidden ones included.
    #[must_use]
    pub fn has_frames(&self, stack: StackIndex) -> bool {
        !self.stacks.members(stack).is_empty()
    }
}
