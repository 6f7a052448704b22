//! The signals that can trigger a snapshot.
#![forbid(unsafe_code)]

use std::ffi::c_int;

/// A signal that requests a snapshot: one whose meaning the program chooses.
///
/// Signals that end or stop a process are not among them: a handler would change what they do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Signal(c_int);

/// One more than the largest signal number on Linux.
pub(in crate::trigger) const N_SIGNALS: usize = 129;

impl Signal {
    /// `SIGUSR1`.
    pub const USR1: Signal = Signal(libc::SIGUSR1);
    /// `SIGUSR2`, the signal of `dump=signal`.
    pub const USR2: Signal = Signal(libc::SIGUSR2);

    /// Returns the real-time signal `SIGRTMIN + n`; `None` if the system has fewer.
    #[must_use]
    pub fn real_time(n: u32) -> Option<Signal> {
        let number = libc::SIGRTMIN().checked_add(c_int::try_from(n).ok()?)?;
        (number <= libc::SIGRTMAX()).then_some(Signal(number))
    }

    /// Returns the signal's number.
    #[must_use]
    pub fn number(self) -> i32 {
        self.0
    }

    /// Reads `USR1`, `SIGUSR2`, or the number of a real-time signal.
    pub(in crate::trigger) fn named(name: &str) -> Option<Signal> {
        match name.strip_prefix("SIG").unwrap_or(name) {
            "USR1" => Some(Signal::USR1),
            "USR2" => Some(Signal::USR2),
            number => Signal::numbered(number.parse().ok()?).filter(|signal| signal.0 >= libc::SIGRTMIN()),
        }
    }

    /// Returns the signal with a number, if it is one of these.
    pub(in crate::trigger) fn numbered(number: c_int) -> Option<Signal> {
        match number {
            libc::SIGUSR1 => Some(Signal::USR1),
            libc::SIGUSR2 => Some(Signal::USR2),
            _ => Signal::real_time(u32::try_from(number.checked_sub(libc::SIGRTMIN())?).ok()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_signals_of_the_program_have_names() {
        for (name, signal) in [
            ("USR1", Some(Signal::USR1)),
            ("SIGUSR2", Some(Signal::USR2)),
            ("40", Signal::real_time(u32::try_from(40 - libc::SIGRTMIN()).unwrap())),
            ("9", None),
            ("TERM", None),
            ("65", None),
            ("", None),
        ] {
            assert_eq!(Signal::named(name), signal, "{name}");
        }
        assert_eq!(
            (Signal::real_time(0).unwrap().number(), Signal::real_time(100)),
            (libc::SIGRTMIN(), None)
        );
    }
}
