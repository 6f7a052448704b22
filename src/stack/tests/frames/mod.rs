//! Frames in assembly that are hard to unwind.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::ffi::c_void;

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::{BY_POINTER, FRAMES, bounce};
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{BY_POINTER, FRAMES, bounce};

/// A function that a frame calls.
pub(super) type Call = unsafe extern "C-unwind" fn(*mut c_void);

unsafe extern "C-unwind" {
    pub(super) fn memreel_chain_sized(call: Call, data: *mut c_void, n_bytes: usize);
    pub(super) fn memreel_chain_aligned(call: Call, data: *mut c_void);
}

/// A function that calls another one from such a frame.
pub(super) type Frame = unsafe extern "C-unwind" fn(Call, *mut c_void);
