//! Stacks: captured as numbers, named later.
//!
//! The entry point is [`capture()`]: it walks this thread's stack (`unwind/`, or `portable.rs` with the system's
//! unwinder) and gets the number of these addresses from the interner. In steady state neither takes a lock or calls an
//! allocator or the loader, so `capture` can be called from inside any allocator; `tests/preload.rs` counts such calls,
//! and `tests/it/stack/locks.rs` reads the files for locks.

mod capture;
mod choice;
mod intern;
mod landmark;
mod method;
#[cfg_attr(
    not(all(
        target_os = "linux",
        target_env = "gnu",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(miri)
    )),
    allow(dead_code, reason = "some of it serves `unwind/` alone")
)]
mod modules;
mod names;
#[cfg_attr(
    not(all(
        target_os = "linux",
        target_env = "gnu",
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(miri)
    )),
    path = "portable.rs"
)]
mod unwind;

#[cfg(test)]
mod tests;

pub use choice::{set_stack_method, stack_method};
pub use intern::{FrameSource, SourceCode, SourceFrame};
pub use method::StackMethod;
pub use names::name_addresses;

pub(crate) use capture::capture;
pub(crate) use intern::{AskLater, Frames, StackInterner, StackParts, with_reserve};
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
pub(crate) use modules::exported;
pub(crate) use modules::{Generation, PastModules};
pub(crate) use names::{Past, SharedNames, Symbol, Symbolizer, with_kept_names};

/// Returns the stacks of threads that have captured, as far as they are known. The threads may have ended.
pub(crate) fn known_stacks() -> Vec<std::ops::Range<u64>> {
    unwind::known_stacks().map(|stack| stack.start as u64..stack.end as u64).collect()
}

/// Makes the static parts of captures safe across forks.
pub(crate) fn survive_forks() {
    modules::survive_forks();
    crate::process::fork::register_static(crate::process::fork::Level::Modules, |held| {
        held.call(unwind::after_fork, || {})
    });
}
