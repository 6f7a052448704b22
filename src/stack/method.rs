//! The ways to walk a thread's stack.
#![forbid(unsafe_code)]

/// A way to walk a thread's stack.
///
/// All methods return the return addresses that `backtrace::trace` returns, at most 128. They differ in cost and reach:
/// all but [`StackMethod::Backtrace`] end at code that a signal interrupted, and at code that the loader does not know,
/// such as a JIT compiler's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum StackMethod {
    /// Follows frame pointers where the unwind tables confirm them and cached rules
    /// elsewhere, down to the first frame that is unchanged since this thread's last
    /// capture. The fastest method in a program built with
    /// `-C force-frame-pointers=yes`, and the default there.
    FramePointers = 1,
    /// Follows cached unwind rules, down to the first frame that is unchanged since
    /// this thread's last capture. The default in other programs on Linux with glibc, on x86-64 and aarch64.
    Reuse = 2,
    /// Follows cached unwind rules for the whole stack each time. Never the default.
    Rules = 3,
    /// Uses the system's unwinder, as `backtrace` does. The default on other systems.
    Backtrace = 4,
}

impl StackMethod {
    pub(super) const ALL: [StackMethod; 4] =
        [StackMethod::FramePointers, StackMethod::Reuse, StackMethod::Rules, StackMethod::Backtrace];

    /// Returns the method's name, as in `MEMREEL_STACK_METHOD` and in a snapshot's settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            StackMethod::FramePointers => "frame_pointers",
            StackMethod::Reuse => "reuse",
            StackMethod::Rules => "rules",
            StackMethod::Backtrace => "backtrace",
        }
    }

    pub(super) fn named(name: &str) -> Option<StackMethod> {
        StackMethod::ALL.into_iter().find(|method| method.name() == name)
    }
}
