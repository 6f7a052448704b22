//! Intercepts how programs find the driver's functions: by name, or through `cuGetProcAddress`, which returns wrappers
//! instead.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::{
    calls::{TABLES, wrapped::wrapped},
    entry::Entry,
    loader,
    types::Status,
};

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: u64 = 1 << 1;

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

fn entries() -> impl Iterator<Item = &'static Entry> {
    TABLES.into_iter().chain([TABLE]).flatten().copied()
}

/// Returns the wrapped function with an exported name.
pub(crate) fn by_symbol(symbol: &CStr) -> Option<&'static Entry> {
    entries().find(|entry| entry.symbol == symbol)
}

/// Returns the wrapped function that a name means in a version of CUDA.
fn by_name(name: &CStr, version: c_int, is_per_thread: bool) -> Option<&'static Entry> {
    let text = name.to_str().ok()?;
    let named = entries().filter(|entry| entry.name == text && entry.since <= version);
    // The twin, where there is one.
    let best = named.max_by_key(|entry| (entry.is_per_thread == is_per_thread, entry.since));
    best.filter(|entry| !entry.is_per_thread || is_per_thread).or_else(|| by_symbol(name))
}

/// Replaces the function that `cuGetProcAddress` wrote into `found` by its wrapper, if it has one.
///
/// # Safety
/// The parameters are those of a call of `cuGetProcAddress` that had this status; `is_twin` if the
/// function was asked for by the twin for the default stream of each thread.
unsafe fn replace(
    status: Status,
    (name, found): (*const c_char, *mut *mut c_void),
    version: c_int,
    flags: u64,
    is_twin: bool,
) {
    if !status.is_success() || name.is_null() || found.is_null() {
        return;
    }
    // SAFETY: the driver took the name, and wrote the address.
    let (name, function) = unsafe { (CStr::from_ptr(name), *found) };
    if function.is_null() {
        return;
    }
    let is_per_thread = flags & PER_THREAD != 0 || is_twin && flags == 0;
    let Some(named) = by_name(name, version, is_per_thread) else { return };
    // The function that was found decides: a name may mean a later version of it, whose parameters are others.
    let is_it = |entry: &&'static Entry| entry.driver() == function;
    let exact = || Some(named).filter(is_it).or_else(|| entries().find(is_it));
    // A driver may hand out another address than the one that it exports.
    let is_hidden = || loader::is_of_driver(function) && !is_later(named.symbol, function);
    let Some(entry) = exact().or_else(|| Some(named).filter(|_| is_hidden())) else { return };
    // SAFETY: the caller expects an address of a function here, and the wrapper has the type of the function.
    unsafe { *found = entry.replace(function) };
}

/// Returns whether a function is a later version than the one that is wrapped: its parameters may be others.
fn is_later(symbol: &CStr, function: *mut c_void) -> bool {
    let text = symbol.to_str().unwrap_or_default();
    let (name, twin) = text.strip_suffix("_ptsz").map_or((text, ""), |name| (name, "_ptsz"));
    let (name, version) = match name.rsplit_once("_v") {
        Some((name, version)) => (name, version.parse().unwrap_or(1)),
        None => (name, 1_u32),
    };
    (version + 1..version + 4).any(|version| {
        let later = std::ffi::CString::new(format!("{name}_v{version}{twin}")).unwrap_or_default();
        loader::of_driver(&later) == function
    })
}
