//! The method by which this process captures stacks, chosen once.
#![forbid(unsafe_code)]

use std::{
    io::Write,
    sync::atomic::{AtomicU8, Ordering},
};

use super::{method::StackMethod, unwind};
use crate::process::environment;

/// The method in force; 0 until one is chosen. Relaxed: each thread or address learns what a method needs for itself.
static METHOD: AtomicU8 = AtomicU8::new(0);

/// Returns how this process captures stacks.
///
/// The method is chosen at the first call, or when the first recorder is created: the fastest that this build and
/// machine support, unless `MEMREEL_STACK_METHOD` names another. An unknown name prints a warning on standard error and
/// is ignored: a misspelt setting must not cost the recording.
///
/// ```
/// println!("stacks are captured by {}", memreel::integrate::stack_method().name());
/// ```
#[must_use]
pub fn stack_method() -> StackMethod {
    in_force().unwrap_or_else(choose)
}

/// Captures every stack of this process by `method` from now on, and returns the method that is actually used.
///
/// That is [`StackMethod::Backtrace`] on systems where memreel has no stack walk of its own. A program with
/// JIT-compiled code on its stacks should choose [`StackMethod::Backtrace`], the only method that walks through it.
///
/// ```
/// use memreel::integrate::{StackMethod, set_stack_method, stack_method};
///
/// let used = set_stack_method(StackMethod::Backtrace);
/// assert_eq!(used, stack_method());
/// ```
pub fn set_stack_method(method: StackMethod) -> StackMethod {
    let method = if unwind::prepare().is_some() { method } else { StackMethod::Backtrace };
    METHOD.store(method as u8, Ordering::Relaxed);
    method
}

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
fn choose() -> StackMethod {
    let best = unwind::prepare().unwrap_or(StackMethod::Backtrace);
    let method = match environment::text("MEMREEL_STACK_METHOD") {
        Ok(name) => by_name(&name, best),
        Err(_) => best,
    };
    // Two threads that start at once choose the same method; the first choice counts.
    let first = METHOD.compare_exchange(0, method as u8, Ordering::Relaxed, Ordering::Relaxed);
    if first.is_ok() { method } else { in_force().unwrap_or(method) }
}

/// Returns the method with this name, if the machine supports it.
fn by_name(name: &str, best: StackMethod) -> StackMethod {
    match StackMethod::named(name) {
        Some(_) if best == StackMethod::Backtrace => best,
        Some(method) => method,
        None => {
            let names = StackMethod::ALL.map(StackMethod::name).join(", ");
            let _ = writeln!(
                std::io::stderr(),
                "memreel: MEMREEL_STACK_METHOD={name} is not one of {names}; using {}",
                best.name()
            );
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
            assert_eq!(by_name(method.name(), StackMethod::Reuse), method);
            assert_eq!(by_name(method.name(), StackMethod::Backtrace), StackMethod::Backtrace);
        }
        assert_eq!(by_name("memoo", StackMethod::Reuse), StackMethod::Reuse);
        assert_eq!(by_name("", StackMethod::Reuse), StackMethod::Reuse);
    }
}
