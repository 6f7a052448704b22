//! The libraries of the process: which of them has a function, and which imports one.

use std::{
    ffi::{CStr, CString, c_int, c_void},
    mem, ptr,
};

use super::apart::silently;

/// Calls `look` with each library, in the order in which they were loaded, until it returns true.
pub(crate) fn each(mut look: impl FnMut(&libc::dl_phdr_info) -> bool) {
    unsafe extern "C" fn one<F: FnMut(&libc::dl_phdr_info) -> bool>(
        library: *mut libc::dl_phdr_info,
        _: usize,
        look: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a library and what it was given, `look`.
        let (library, look) = unsafe { (&*library, &mut *look.cast::<F>()) };
        c_int::from(look(library))
    }
    fn start<F: FnMut(&libc::dl_phdr_info) -> bool>(look: &mut F) {
        // SAFETY: `one` gets `look` back, and does not unwind.
        unsafe { libc::dl_iterate_phdr(Some(one::<F>), ptr::from_mut(look).cast()) };
    }
    start(&mut look);
}

/// Returns how many libraries were loaded so far.
pub(crate) fn n_loaded() -> u64 {
    let mut n_loaded = 0;
    each(|library| {
        n_loaded = library.dlpi_adds;
        true
    });
    n_loaded
}

/// Returns a function from the first other library that has it; null if there is none. The library remains loaded.
pub(crate) fn find(name: &CStr) -> *mut c_void {
    silently(|| {
        let mut paths: Vec<CString> = Vec::new();
        each(|library| {
            // SAFETY: the loader's name of a library ends in nul.
            let path = (!library.dlpi_name.is_null()).then(|| unsafe { CStr::from_ptr(library.dlpi_name) });
            paths.extend(path.filter(|path| !path.is_empty()).map(CStr::to_owned));
            false
        });
        let found = paths.iter().find_map(|path| function_of(path, name)).unwrap_or(ptr::null_mut());
        forget_error();
        found
    })
}

/// Returns a function of a loaded library, or of one that it needs; the one that has it remains loaded.
fn function_of(path: &CStr, name: &CStr) -> Option<*mut c_void> {
    let library = Loaded::of(path)?;
    // SAFETY: the name ends in nul.
    let found = unsafe { libc::dlsym(library.0, name.as_ptr()) };
    if found.is_null() || library_of(found) == library_of(find as *mut c_void) {
        return None;
    }
    mem::forget(Loaded::of(path_of(found)?)?);
    Some(found)
}

/// A library that remains loaded while this exists.
struct Loaded(*mut c_void);

impl Loaded {
    /// Returns a library that is loaded already.
    fn of(path: &CStr) -> Option<Loaded> {
        // SAFETY: the path ends in nul; the library is there, so nothing of it runs.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!library.is_null()).then_some(Loaded(library))
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: opened by `of`.
        unsafe { libc::dlclose(self.0) };
    }
}

/// Makes the loader forget its last error, which is not the program's: called twice, it frees the text now, and not
/// within a call of the program.
pub(crate) fn forget_error() {
    for _ in 0..2 {
        // SAFETY: any thread may ask for its own error.
        unsafe { libc::dlerror() };
    }
}

/// Returns what a name means in the order of the program.
pub(crate) fn first_of(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends in nul.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// Returns where the library is that an address is in.
pub(crate) fn library_of(address: *mut c_void) -> *mut c_void {
    found_at(address).dli_fbase
}

/// Returns the path of the library that an address is in.
fn path_of(address: *mut c_void) -> Option<&'static CStr> {
    let path = found_at(address).dli_fname;
    // SAFETY: the loader's name of a library ends in nul.
    (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) })
}

/// Returns what the loader knows of an address.
fn found_at(address: *mut c_void) -> libc::Dl_info {
    // SAFETY: all its bytes are zero, which is a value of its fields.
    let mut found: libc::Dl_info = unsafe { mem::zeroed() };
    // SAFETY: any address may be asked for; the result is written into `found`.
    unsafe { libc::dladdr(address, &raw mut found) };
    found
}

/// Returns whether an address is a program's way to a function of a library. In a program at a fixed address, such as
/// Debian's Python, it is what the name means everywhere.
pub(crate) fn is_import(address: *mut c_void) -> bool {
    /// `RTLD_DL_SYMENT` of `dlfcn.h`.
    const SYMBOL: libc::c_int = 1;
    // SAFETY: all its bytes are zero, which is a value of its fields.
    let mut found: libc::Dl_info = unsafe { mem::zeroed() };
    let mut symbol: *mut c_void = ptr::null_mut();
    // SAFETY: any address may be asked for; the results are written into `found` and `symbol`.
    let is_found = unsafe { libc::dladdr1(address, &raw mut found, &raw mut symbol, SYMBOL) } != 0;
    // SAFETY: the loader's own entry, which lives as long as the program.
    is_found && !symbol.is_null() && unsafe { (*symbol.cast::<libc::Elf64_Sym>()).st_shndx } == 0
}
