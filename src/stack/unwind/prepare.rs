//! Prepares captures: checks what the loader offers, and which method suits this build.
#![forbid(unsafe_code)]

use super::{
    super::{method::StackMethod, modules},
    learn, processor,
};

/// Looks up what captures need; returns the method that suits this build, or none
/// if this program's own code cannot be walked.
///
/// std has frame pointers and glibc has none, whatever the build. What matters is the code that calls memreel, which is
/// compiled like memreel: this very function serves as the sample.
#[inline(never)]
pub(in super::super) fn prepare() -> Option<StackMethod> {
    modules::prepare();
    learn::prepare();
    match learn::learn(processor::here().ip)? {
        rule if rule.has_frame_record() => Some(StackMethod::FramePointers),
        rule if rule.is_frame() => Some(StackMethod::Reuse),
        _ => None,
    }
}
