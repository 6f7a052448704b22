//! Blocks that are created once and kept for a reason: gradients, optimizer states, activations, weights, captured
//! graphs.

use std::fmt;

use serde::{Serialize, Serializer};

use super::{role_rules::KEPT_WORKSPACES, shown::ShownFrames};
use crate::{
    model::{Frame, StackIndex},
    words::paths::{base_name, with_slashes},
};

/// What a program creates in one call and keeps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Made {
    /// From the backward pass: frames of `AccumulateGrad` and of `*Backward0`.
    Gradients,
    /// From the first step of an optimizer.
    OptimizerStates,
    /// From a forward call of a module.
    Activations,
    /// Loaded, moved or initialised.
    Weights,
    /// From the capture of a graph.
    Graph,
}

impl Made {
    /// Returns `gradients`, `optimizer states`, `activations of a forward`, `weights` or `a captured graph`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Made::Gradients => "gradients",
            Made::OptimizerStates => "optimizer states",
            Made::Activations => "activations of a forward",
            Made::Weights => "weights",
            Made::Graph => "a captured graph",
        }
    }

    /// Returns what a stack's blocks are according to its frames: the innermost frame that shows it decides.
    #[must_use]
    pub fn of(shown: &ShownFrames<'_>, stack: StackIndex) -> Option<Made> {
        let shows = |frame: &Frame| match is_workspace(frame) {
            true => Some(None),
            false => Made::by(frame).map(Some),
        };
        shown.marked(stack).find_map(|marked| shows(marked.frame)).flatten()
    }

    /// Returns what a call creates.
    pub(crate) fn by(frame: &Frame) -> Option<Made> {
        let (name, file) = (&*frame.name, &*with_slashes(&frame.filename));
        let is_in = |folder: &str| file.contains(folder);
        let is_backward = name.contains("AccumulateGrad")
            || name.contains("Backward0::")
            || name.contains("Engine::evaluate_function")
            || name.contains("Engine::thread_main")
            || name == "_engine_run_backward";
        let is_loading = ["__init__", "_apply", "from_pretrained"].contains(&name)
            || name.starts_with("load")
            || name.contains("_load_")
            || name.contains("load_state_dict");
        if is_backward {
            Some(Made::Gradients)
        } else if is_in("torch/optim/")
            || name == "_init_group"
            || name == "step" && base_name(file).contains("optim")
        {
            Some(Made::OptimizerStates)
        } else if name.contains("capture") || is_in("torch/cuda/graphs.py") {
            Some(Made::Graph)
        } else if is_loading {
            Some(Made::Weights)
        } else if name == "forward" || Made::is_module_call(frame) {
            Some(Made::Activations)
        } else {
            None
        }
    }

    fn is_module_call(frame: &Frame) -> bool {
        matches!(&*frame.name, "_call_impl" | "_wrapped_call_impl")
            && base_name(&with_slashes(&frame.filename)) == "module.py"
    }

    /// Returns whether a frame only passes a call on, so that the call may have been repeated.
    pub(crate) fn passes_on(frame: &Frame) -> bool {
        Made::is_module_call(frame)
    }
}

/// Returns whether a frame requests the workspace of a library's function, such as a convolution of cuDNN: the pass that it
/// is part of does not decide what the block is.
fn is_workspace(frame: &Frame) -> bool {
    const PASSING_WORKSPACES: [&str; 2] = ["run_conv_plan", "Workspace::Workspace"];
    KEPT_WORKSPACES.iter().chain(&PASSING_WORKSPACES).any(|part| frame.name.contains(part))
}

/// Returns whether a frame is of Python's call of a backward.
pub(crate) fn is_backward(frame: &Frame) -> bool {
    let of_file = |file: &str| with_slashes(&frame.filename).ends_with(file);
    match &*frame.name {
        "_engine_run_backward" => true,
        "backward" => of_file("torch/_tensor.py") || of_file("torch/autograd/__init__.py"),
        _ => false,
    }
}

/// Returns whether a stack, outermost frame first, is from the backward pass: one of its frames shows it, or the
/// autograd engine called it on its own thread, where the outermost frame is a hook or a function's `backward` rather
/// than a program's.
pub(crate) fn is_way_back<'f>(outermost: impl Iterator<Item = &'f Frame>) -> bool {
    let mut frames = outermost.peekable();
    let is_called_back = frames.peek().is_some_and(|frame| {
        let is_hook = ["backward", "hook", "unpack"].iter().any(|word| frame.name.contains(word));
        is_hook
            || &*frame.name == "apply"
                && with_slashes(&frame.filename).ends_with("torch/autograd/function.py")
    });
    is_called_back || frames.any(|frame| Made::by(frame) == Some(Made::Gradients))
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Made {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Snapshot;

    #[test]
    fn the_workspace_of_a_convolution_is_no_gradient() {
        let backward = "torch::autograd::generated::ConvolutionBackward0::apply(std::vector<at::Tensor>&&)";
        let made = |names: &[&str]| {
            let mut snapshot = Snapshot::default();
            let frame =
                |name: &&str| Frame { name: (*name).into(), filename: "??".into(), ..Frame::default() };
            let members: Vec<_> =
                names.iter().map(|name| snapshot.stacks.intern_frame(frame(name))).collect();
            let stack = snapshot.stacks.intern_stack(&members);
            Made::of(&ShownFrames::new(&snapshot), stack)
        };
        assert_eq!(made(&["at::native::empty_cuda(long)", backward]), Some(Made::Gradients));
        for workspace in ["at::native::run_conv_plan(cudnnContext*)", "at::cuda::getNewWorkspace()"] {
            assert_eq!(made(&[workspace, backward]), None, "{workspace}");
        }
    }
}
