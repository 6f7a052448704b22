//! What a block is besides its stack: the innermost frame says it.
#![forbid(unsafe_code)]

/// Records with a frame of this name in front of the stack.
pub(crate) fn marked<T>(mark: Option<&'static str>, work: impl FnOnce() -> T) -> T {
    let _mark = mark.map(memreel::integrate::mark);
    work()
}
