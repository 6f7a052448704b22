//! The functions by which a process gives up rights or its root. A child of `fork` starts its tape before that:
//! afterwards it may not, as in the workers of a server that root starts.

use std::ffi::c_char;

use libc::{c_int, gid_t, size_t, uid_t};

use super::{
    behind::before_and_after,
    run,
    state::{is_forked, is_own_process, record},
};

before_and_after! { begin, given;
    setuid(user: uid_t);
    seteuid(user: uid_t);
    setreuid(user: uid_t, effective: uid_t);
    setresuid(user: uid_t, effective: uid_t, saved: uid_t);
    setgid(group: gid_t);
    setegid(group: gid_t);
    setregid(group: gid_t, effective: gid_t);
    setresgid(group: gid_t, effective: gid_t, saved: gid_t);
    setgroups(n: size_t, groups: *const gid_t);
    initgroups(user: *const c_char, group: gid_t);
}

/// Starts the recording of a child of `fork`, if its parent is recorded.
pub(crate) fn begin() {
    if is_forked() && is_own_process() {
        // SAFETY: the C library's error number of this thread.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as above.
        let before = unsafe { *errno };
        record(|_| ());
        // SAFETY: as above.
        unsafe { *errno = before };
    }
}

fn given(status: c_int) {
    if status == 0 {
        run::give_rights();
    }
}

pub(crate) fn find_all() {
    behind::ALL.iter().for_each(|function| _ = function.address());
}
