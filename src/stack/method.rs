//! How stacks are captured: decided once, for the process.

use std::{
    env,
    sync::atomic::{AtomicU8, Ordering},
};

use super::unwind;

/// A way to walk a thread's stack.
///
/// All give the return addresses that `backtrace::trace` gives, up to 128.
/// They differ in what they cost, and in how far they see: all but
/// [`StackMethod::Backtrace`] end at code that a signal interrupted, and at
/// code that the loader does not know, such as a JIT compiler's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum StackMethod {
    /// From frame pointer to frame pointer, where the unwind tables say that
    /// there is one, and by cached rules elsewhere; down to the first frame that is
    /// as it was in this thread's last capture. The fastest in a program built with
    /// `-C force-frame-pointers=yes`, and chosen there.
    FramePointers = 1,
    /// By cached unwind rules, down to the first frame that is as it was in
    /// this thread's last capture. Chosen in other programs on x86-64 Linux with glibc.
    Reuse = 2,
    /// By cached unwind rules, all the way each time. Never chosen by itself.
    Rules = 3,
    /// By the system's unwinder, as `backtrace` calls it. Chosen on other systems.
    Backtrace = 4,
}

impl StackMethod {
    const ALL: [StackMethod; 4] =
        [StackMethod::FramePointers, StackMethod::Reuse, StackMethod::Rules, StackMethod::Backtrace];

    /// The word for it, in `MEMREEL_STACK_METHOD` and in a snapshot's settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            StackMethod::FramePointers => "frame_pointers",
            StackMethod::Reuse => "reuse",
            StackMethod::Rules => "rules",
            StackMethod::Backtrace => "backtrace",
        }
    }

    /// Captures every stack of this process this way from now on; returns the
    /// method in force, which is [`StackMethod::Backtrace`] where memreel
    /// cannot walk by itself. For tests and measurements.
    #[doc(hidden)]
    pub fn force(self) -> StackMethod {
        let method = if unwind::prepare().is_some() { self } else { StackMethod::Backtrace };
        METHOD.store(method as u8, Ordering::Relaxed);
        method
    }

    fn named(name: &str) -> Option<StackMethod> {
        StackMethod::ALL.into_iter().find(|method| method.name() == name)
    }
}

/// The method in force, 0 while none is.
static METHOD: AtomicU8 = AtomicU8::new(0);

/// How this process captures stacks.
///
/// Decided when it is first asked for or the first recorder is made: what
/// suits the build and the machine, unless `MEMREEL_STACK_METHOD` has the name
/// of another method. A name that is none is told on standard error and not
/// followed: a misspelt setting must not cost the recording.
///
/// ```
/// println!("stacks are captured by {}", memreel::recorder::stack_method().name());
/// ```
#[must_use]
pub fn stack_method() -> StackMethod {
    in_force().unwrap_or_else(decide)
}

/// The method in force, if one was decided on.
#[inline(always)]
fn in_force() -> Option<StackMethod> {
    match METHOD.load(Ordering::Relaxed) {
        1 => Some(StackMethod::FramePointers),
        2 => Some(StackMethod::Reuse),
        3 => Some(StackMethod::Rules),
        4 => Some(StackMethod::Backtrace),
        _ => None,
    }
}

#[cold]
fn decide() -> StackMethod {
    let best = unwind::prepare().unwrap_or(StackMethod::Backtrace);
    let method = match env::var("MEMREEL_STACK_METHOD") {
        Ok(name) => forced(&name, best),
        Err(_) => best,
    };
    // Whoever came first decided; two at once would decide alike.
    let first = METHOD.compare_exchange(0, method as u8, Ordering::Relaxed, Ordering::Relaxed);
    if first.is_ok() { method } else { in_force().unwrap_or(method) }
}

/// The method of this name, where the machine has it.
fn forced(name: &str, best: StackMethod) -> StackMethod {
    match StackMethod::named(name) {
        Some(_) if best == StackMethod::Backtrace => best,
        Some(method) => method,
        None => {
            let names = StackMethod::ALL.map(StackMethod::name).join(", ");
            eprintln!("memreel: MEMREEL_STACK_METHOD={name} is none of {names}; using {}", best.name());
            best
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_followed_where_the_machine_can() {
        for method in StackMethod::ALL {
            assert_eq!(forced(method.name(), StackMethod::Reuse), method);
            assert_eq!(forced(method.name(), StackMethod::Backtrace), StackMethod::Backtrace);
        }
        assert_eq!(forced("memoo", StackMethod::Reuse), StackMethod::Reuse);
        assert_eq!(forced("", StackMethod::Reuse), StackMethod::Reuse);
    }
}
