//! A terminal for tests, and its signals.

use std::{
    os::{
        fd::{FromRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::Command,
    ptr,
};

/// Returns both ends of a new terminal of this width.
pub(crate) fn terminal(columns: u16) -> [OwnedFd; 2] {
    let mut ends = [0; 2];
    let [near, far] = &mut ends;
    let size = libc::winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `near` and `far` point to locals that the call writes, and `size` to one that it reads; the other
    // pointers may be null.
    assert_eq!(unsafe { libc::openpty(near, far, ptr::null_mut(), ptr::null(), &raw const size) }, 0);
    // SAFETY: the call succeeded, so both are open, and this is their only owner.
    ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) })
}

/// Has a command start with the signals of a terminal as a login shell leaves them. What started these tests may ignore
/// them, as `nohup` and the background jobs of a script do, and a child inherits that.
pub(crate) fn default_signals(command: &mut Command) {
    let restore = || {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: the default disposition needs no handler.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: between `fork` and `exec` it calls `signal` alone, which is safe there.
    unsafe { command.pre_exec(restore) };
}
