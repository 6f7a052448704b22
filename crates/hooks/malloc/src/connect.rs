//! Starts a recording when the library is loaded.

use std::{
    ffi::{CStr, c_void},
    io::Write,
    ptr,
};

use super::{
    asked,
    code::Code,
    forks, handler, imports,
    libraries::{first_of, is_import, library_of},
    loader, next, reports, sanitizers,
};

/// Runs when the library is loaded, before the program.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = connect;

/// Finds the other library, if a recording was requested. Until then nothing is reported.
extern "C" fn connect() {
    next::find_all();
    if !asked::is_asked_for() {
        return;
    }
    let found = reports::FUNCTIONS.map(first_of);
    if found.contains(&ptr::null_mut()) {
        let missing = "memreel: the heap is not recorded: libmemreel_preload.so is not in LD_PRELOAD\n";
        let _ = std::io::stderr().write_all(missing.as_bytes());
        return;
    }
    // With half of the calls, blocks would overlap.
    let is_behind = |name: &CStr| {
        let first = first_of(name);
        library_of(first) != library_of(connect as *mut c_void) && !is_import(first)
    };
    if [c"malloc", c"calloc", c"realloc", c"free"].into_iter().any(is_behind) {
        let behind = "memreel: the heap is not recorded: another library's malloc comes before memreel's\n";
        let _ = std::io::stderr().write_all(behind.as_bytes());
        report_behind();
        return;
    }
    imports::report();
    forks::begin();
    begin_next();
    loader::find();
    handler::find();
    sanitizers::find();
    // Another allocator holds its locks when it maps memory.
    reports::begin(found, are_of_c([c"malloc", c"mmap"]));
}

/// Returns whether the next functions of these names are the C library's. The loader is asked for its place once: it compares
/// all of its symbols each time.
fn are_of_c(names: [&CStr; 2]) -> bool {
    let of_c = library_of(next::in_order(c"gnu_get_libc_version"));
    let code = Code::unknown();
    if !of_c.is_null() {
        // SAFETY: the loader has mapped the C library there.
        unsafe { code.find(of_c.addr()) };
    }
    names.into_iter().all(|name| code.has(next::in_order(name).addr()))
}

/// Makes the other library report that the heap is not recorded.
fn report_behind() {
    let report = first_of(c"memreel_heap_is_behind");
    if !report.is_null() {
        // SAFETY: the other library has it under this name, with this type.
        let report = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn()>(report) };
        report();
    }
}

/// Initialises the next allocator, if it does that at its first call. What AddressSanitizer allocates until it is ready
/// must not be reported, because a report uses thread storage.
fn begin_next() {
    if let (Some(malloc), Some(free)) = (next::malloc(), next::free()) {
        // SAFETY: a block of `malloc`.
        unsafe { free(malloc(1)) };
    }
}
