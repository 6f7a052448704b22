//! How programs find the driver's functions.

use std::ffi::{c_char, c_int, c_void};

use super::wrapped::wrapped;
use crate::{lookup::replace, types::Status};

wrapped! {
    fn cuGetProcAddress["cuGetProcAddress", 11030](
        name: *const c_char, found: *mut *mut c_void, version: c_int, flags: u64,
    ) = |call| asked(call(), (name, found), version, flags, false);

    fn cuGetProcAddress_v2["cuGetProcAddress", 12000](
        name: *const c_char, found: *mut *mut c_void, version: c_int, flags: u64, why: *mut c_int,
    ) = |call| asked(call(), (name, found), version, flags, false);

    fn cuGetProcAddress_v2_ptsz["cuGetProcAddress", 12000 per_thread](
        name: *const c_char, found: *mut *mut c_void, version: c_int, flags: u64, why: *mut c_int,
    ) = |call| asked(call(), (name, found), version, flags, true);
}

fn asked(
    status: Status,
    (name, found): (*const c_char, *mut *mut c_void),
    version: c_int,
    flags: u64,
    is_twin: bool,
) -> Status {
    // SAFETY: the parameters are those of the call that had this status.
    unsafe { replace(status, (name, found), version, flags, is_twin) };
    status
}
