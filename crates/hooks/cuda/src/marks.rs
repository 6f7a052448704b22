//! The kind of a block in addition to its stack, shown by the innermost frame.
#![forbid(unsafe_code)]

/// Records with a frame of this name at the top of the stack.
pub(crate) fn marked<T>(mark: Option<&'static str>, work: impl FnOnce() -> T) -> T {
    let _mark = mark.map(memreel::integrate::mark);
    work()
}
