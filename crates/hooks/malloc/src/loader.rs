//! The dynamic loader's own requests, which are not reported.
//!
//! The loader allocates for the storage of threads when a library's own is first used, also when a report uses it. A report of
//! such a request would use that storage again while the loader is about to make it.

use super::code::Code;

/// The location of the loader's code.
static CODE: Code = Code::unknown();

/// Finds the loader's code.
pub(crate) fn find() {
    // SAFETY: any value may be asked for.
    let base = unsafe { libc::getauxval(libc::AT_BASE) } as usize;
    // Without one, the program is the loader, which was given a program to load.
    if base != 0 {
        // SAFETY: the kernel has mapped the loader there, with its header and its table of segments.
        unsafe { CODE.find(base) };
    }
}

/// Returns whether a return address is in the loader's code.
#[inline]
pub(crate) fn is_caller(return_address: usize) -> bool {
    CODE.has(return_address)
}
