//! Finds the stacks below one call, and the calls that lead from there to each request.

use memreel_snapshot::{
    history::CallPaths,
    model::{Frame, StackIndex, StackTable},
    words::paths::{base_name, with_slashes},
};

/// A call that a text names, in each stack of a snapshot.
pub(super) struct CallPlace {
    /// For each stack that has the call, the number of the calls below its outermost occurrence.
    below: Vec<Option<u32>>,
}

impl CallPlace {
    /// Finds the frames whose `function (file:line)` contains the text, with the whole path or with its last part.
    pub(super) fn new(text: &str, stacks: &StackTable) -> CallPlace {
        let text = with_slashes(text);
        let is_named: Vec<bool> = stacks.all_frames().map(|frame| is_named(frame, &text)).collect();
        let mut paths = CallPaths::default();
        let below = stacks.all_stacks().map(|frames| {
            let outermost = frames.iter().rposition(|frame| is_named[frame.index()])?;
            Some(paths.number(&frames[..=outermost]))
        });
        CallPlace { below: below.collect() }
    }

    /// Returns the number of calls from the named one to the request; `None` if the stack does not contain it.
    pub(super) fn below(&self, stack: StackIndex) -> Option<u32> {
        self.below[stack.index()]
    }
}

fn is_named(frame: &Frame, text: &str) -> bool {
    let Frame { name, filename, line, .. } = frame;
    let path = with_slashes(filename);
    [base_name(&path), &path].iter().any(|path| format!("{name} ({path}:{line})").contains(text))
}
