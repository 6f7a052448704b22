//! Which frames are worth showing: those that the viewer and PyTorch's tool show (snapshot-format.md 3.4).

use crate::snapshot::{Frame, FrameIndex, Snapshot, StackIndex, StackTable};

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

/// Part of the names of PyTorch's allocator.
const PASSES_ON: &str = "CUDACachingAllocator";

/// Whether a frame is shown.
///
/// Parts of texts decide, as in the viewer, so that a function of yours called
/// `warm_start` is hidden too.
#[must_use]
pub fn is_shown(name: &str, filename: &str) -> bool {
    !HIDDEN_NAMES.iter().any(|part| name.contains(part))
        && !HIDDEN_FILES.iter().any(|part| filename.contains(part))
}

/// The part of a path after its last slash.
#[must_use]
pub fn base_name(filename: &str) -> &str {
    filename.rsplit('/').next().unwrap_or(filename)
}

/// How well a frame identifies the code that allocated, the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Telling {
    Hidden,
    /// Every allocation passes through it.
    PassesOn,
    /// Below Python it is the same for every allocation.
    Native,
    Python,
}

impl Telling {
    fn of(frame: &Frame) -> Telling {
        let Frame { name, filename, .. } = frame;
        let is_module =
            matches!(&**name, "_call_impl" | "_wrapped_call_impl") && filename.ends_with("module.py");
        if !is_shown(name, filename) {
            Telling::Hidden
        } else if is_module || name.contains(PASSES_ON) || name.starts_with("at::detail::empty_") {
            Telling::PassesOn
        } else if filename.ends_with(".py") || filename.starts_with('<') && filename.ends_with('>') {
            Telling::Python
        } else {
            Telling::Native
        }
    }
}

/// What a name made up for this frame must hold to be shown, or not, as the frame is.
pub(crate) fn mark(frame: &Frame) -> &'static str {
    match Telling::of(frame) {
        Telling::Hidden => HIDDEN_NAMES[0],
        Telling::PassesOn => PASSES_ON,
        Telling::Native | Telling::Python => "",
    }
}

/// The shown frames of one snapshot, found once.
#[derive(Debug)]
pub struct ShownFrames<'a> {
    stacks: &'a StackTable,
    telling: Vec<Telling>,
}

impl<'a> ShownFrames<'a> {
    /// Looks at every frame.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot) -> ShownFrames<'a> {
        let stacks = &snapshot.stacks;
        ShownFrames { stacks, telling: stacks.all_frames().map(Telling::of).collect() }
    }

    /// The numbers of a stack's shown frames, innermost first.
    pub fn members(&self, stack: StackIndex) -> impl DoubleEndedIterator<Item = FrameIndex> + '_ {
        let is_shown = |frame: &FrameIndex| self.telling[frame.index()] > Telling::Hidden;
        self.stacks.members(stack).iter().copied().filter(is_shown)
    }

    /// The shown frames of a stack that identify the code that allocated, innermost first: Python's where there are
    /// any, otherwise those that do more than pass an allocation on, otherwise all shown frames.
    pub fn telling(&self, stack: StackIndex) -> impl DoubleEndedIterator<Item = FrameIndex> + '_ {
        let kind = |frame: &FrameIndex| self.telling[frame.index()];
        let most = self.members(stack).map(|frame| kind(&frame)).max();
        self.members(stack).filter(move |frame| Some(kind(frame)) == most)
    }

    /// A stack's shown frames, innermost first.
    pub fn frames(&self, stack: StackIndex) -> impl DoubleEndedIterator<Item = &'a Frame> + '_ {
        self.members(stack).map(|frame| self.stacks.frame(frame))
    }

    /// Whether a stack has frames at all, hidden ones included.
    #[must_use]
    pub fn has_frames(&self, stack: StackIndex) -> bool {
        !self.stacks.members(stack).is_empty()
    }
}
