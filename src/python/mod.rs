//! Captures Python frames without the interpreter's lock: each thread reads its own frames as memory.
//!
//! A thread's own frames cannot change while it is inside a function of memreel, so no lock is needed to read them.
//! `interpreter.rs` finds CPython in this process, `layout.rs` and `published.rs` know where its fields are, `walk.rs`
//! reads the frames, as long as `ending.rs` permits it, and `codes.rs` copies each code object when it is first seen. Lines are computed later, from
//! the copies (`line_table.rs`). `docs/python.md` describes what is shown, and the limits.

mod atexit;
mod check;
mod code;
mod codes;
mod ending;
mod interpreter;
mod layout;
mod line_table;
mod marks;
mod memory;
mod published;
mod source;
mod walk;
mod walks;

pub use marks::{MarkedFrames, StackMark, mark};
pub use source::PythonFrames;

pub(crate) use code::frame_of;
