//! A terminal for tests.

use std::{
    os::fd::{FromRawFd, OwnedFd},
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
