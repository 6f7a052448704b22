//! `dlsym`, which returns wrappers instead of the driver's functions.
//!
//! The loader inspects its caller: `RTLD_NEXT` means the libraries after the caller's. So every call that is not for
//! the driver is a jump of the processor, which keeps the caller's return address.
//!
//! A name that begins with "cu" may be the driver's, and not for the pseudo libraries `RTLD_NEXT` (-1) and `RTLD_DEFAULT`
//! (0), whose order has this library's functions where they belong. The jump decides that.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::ffi::{CStr, c_char, c_void};

use super::{loader, lookup};

#[cfg(target_arch = "aarch64")]
pub use aarch64::dlsym;
#[cfg(target_arch = "x86_64")]
pub use x86_64::dlsym;

/// Returns the wrapper for a function of the driver; null for everything else, for which the loader is asked.
///
/// # Safety
/// `name` ends in nul, and `library` is a library of the loader.
unsafe extern "C" fn wrapped(library: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    let Some(entry) = lookup::by_symbol(name) else { return std::ptr::null_mut() };
    // SAFETY: the caller's promise; the loader does not look at the caller for a library that is named.
    let found = loader::of(library, name);
    if !found.is_null() && loader::is_of_driver(found) { entry.replace(found) } else { std::ptr::null_mut() }
}
