//! Finds the loader's functions, and the driver.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

use libc::{RTLD_NEXT, RTLD_NOLOAD, RTLD_NOW};

/// The driver's library.
const DRIVER: &CStr = c"libcuda.so.1";

/// The versions of `dlsym` in glibc: since 2.34 in libc, before that in libdl, since the first version for the processor.
const VERSIONS: [&CStr; 2] =
    [c"GLIBC_2.34", if cfg!(target_arch = "aarch64") { c"GLIBC_2.17" } else { c"GLIBC_2.2.5" }];

/// The loader's own `dlsym`, which this library's replaces; null until it is found.
pub(crate) static DLSYM: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Finds the loader's `dlsym`, and returns it.
pub(crate) extern "C" fn find_dlsym() -> *mut c_void {
    for version in VERSIONS {
        // SAFETY: the names end in nul; `dlvsym` itself is not replaced.
        let found = unsafe { libc::dlvsym(RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
        if !found.is_null() {
            // Relaxed: a function of the loader, which is there before any thread begins.
            DLSYM.store(found, Ordering::Relaxed);
            return found;
        }
    }
    ptr::null_mut()
}

/// Returns a symbol of a library, as if this library did not replace any.
pub(crate) fn of(library: *mut c_void, symbol: &CStr) -> *mut c_void {
    // Relaxed: as where it is stored.
    let known = DLSYM.load(Ordering::Relaxed);
    let dlsym = if known.is_null() { find_dlsym() } else { known };
    if dlsym.is_null() {
        return dlsym;
    }
    // SAFETY: `find_dlsym` stores the address of the loader's `dlsym` alone.
    let dlsym = unsafe { std::mem::transmute::<*mut c_void, Dlsym>(dlsym) };
    // SAFETY: the name ends in nul; the library is loaded, or means those behind this one.
    unsafe { dlsym(library, symbol.as_ptr()) }
}

/// Returns the function with this name in the libraries after this one; null if none has it.
pub(crate) fn behind(symbol: &CStr) -> *mut c_void {
    of(RTLD_NEXT, symbol)
}

/// Returns a function of the driver; null if the program has not loaded it.
pub(crate) fn of_driver(symbol: &CStr) -> *mut c_void {
    let driver = driver();
    if driver.is_null() { driver } else { of(driver, symbol) }
}

/// Returns the driver's library, if the program has loaded it. It is never loaded for the program.
fn driver() -> *mut c_void {
    static LOADED: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let loaded = LOADED.load(Ordering::Acquire);
    if !loaded.is_null() {
        return loaded;
    }
    if !is_driver_loaded() {
        return ptr::null_mut();
    }
    // SAFETY: the name ends in nul. The library is loaded already, so no code of it runs; it is never closed.
    let found = unsafe { libc::dlopen(DRIVER.as_ptr(), RTLD_NOLOAD | RTLD_NOW) };
    LOADED.store(found, Ordering::Release);
    found
}

/// Returns whether a loaded library has the driver's name. `dlopen` would look for the file in every folder of libraries
/// each time.
fn is_driver_loaded() -> bool {
    unsafe extern "C" fn is_driver(library: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
        // SAFETY: the loader passes an entry of its list, whose name is null or ends in nul.
        let name = unsafe { (*library).dlpi_name };
        // SAFETY: as above.
        c_int::from(!name.is_null() && is_drivers_name(unsafe { CStr::from_ptr(name) }))
    }
    // SAFETY: the function does not unwind, and uses nothing but its first argument.
    unsafe { libc::dl_iterate_phdr(Some(is_driver), ptr::null_mut()) != 0 }
}

/// Returns whether a path is that of the driver's library.
fn is_drivers_name(path: &CStr) -> bool {
    let path = path.to_bytes();
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path).starts_with(b"libcuda.so")
}

/// Returns whether an address is in the driver's library.
pub(crate) fn is_of_driver(address: *mut c_void) -> bool {
    // SAFETY: all its bytes are zero, which is a value of its fields.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for; the result is written into `found`.
    if unsafe { libc::dladdr(address, &raw mut found) } == 0 || found.dli_fname.is_null() {
        return false;
    }
    // SAFETY: the loader's name of a library, which ends in nul.
    is_drivers_name(unsafe { CStr::from_ptr(found.dli_fname) })
}
