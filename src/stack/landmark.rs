//! A function whose debug information shows the folder that memreel was compiled in.
#![forbid(unsafe_code)]

/// Does nothing; its address is looked up to find this file's path as the line tables spell it.
///
/// `file!()` would not do: its path is relative to a folder that a reader cannot know.
#[inline(never)]
fn landmark() -> &'static str {
    // A text of its own keeps the linker from folding this function into an equal one.
    concat!("compiled in ", file!())
}

/// An address inside the landmark, one byte in, as if it were a return address.
pub(super) fn address() -> usize {
    landmark as fn() -> &'static str as usize + 1
}
