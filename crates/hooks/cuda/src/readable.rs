//! Checks an environment that a program passes on, which may be inaccessible: the kernel then returns an error, and
//! this library must not fault before that.

use std::{
    cell::Cell,
    ffi::{CStr, c_char, c_void},
    ptr,
};

/// A page is a multiple of this.
const PAGE_BYTES: usize = 4096;

/// A list of texts that can be read to its end.
pub(crate) struct Words(*const *const c_char);

/// A text of the list.
pub(crate) struct Text<'a>(&'a CStr);

impl Words {
    /// Returns a list, which ends in null; `None` for null, and if some of it cannot be read.
    pub(crate) fn of(list: *const *const c_char) -> Option<Words> {
        let pages = Pages(Cell::new(usize::MAX));
        if list.is_null() {
            return None;
        }
        for nth in 0.. {
            let at = list.wrapping_add(nth);
            if !pages.has(at.addr()) || !pages.has(at.addr() + size_of::<usize>() - 1) {
                return None;
            }
            // SAFETY: the system has read this memory; a program that unmaps it meanwhile would fault in the kernel's call.
            let text = unsafe { at.read_unaligned() };
            if text.is_null() {
                break;
            }
            let mut byte = text;
            // SAFETY: as above.
            while pages.has(byte.addr()) && unsafe { byte.read() } != 0 {
                byte = byte.wrapping_add(1);
            }
            if !pages.has(byte.addr()) {
                return None;
            }
        }
        Some(Words(list))
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = Text<'_>> {
        let mut at = self.0;
        std::iter::from_fn(move || {
            // SAFETY: `of` has read the list and its texts to their ends.
            let text = unsafe { at.read_unaligned() };
            at = at.wrapping_add(1);
            // SAFETY: as above.
            (!text.is_null()).then(|| Text(unsafe { CStr::from_ptr(text) }))
        })
    }
}

impl<'a> Text<'a> {
    pub(crate) fn at(&self) -> *const c_char {
        self.0.as_ptr()
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.0.to_bytes()
    }
}

/// The page that was found readable last.
struct Pages(Cell<usize>);

impl Pages {
    /// Returns whether a byte can be read.
    fn has(&self, at: usize) -> bool {
        let page = at & !(PAGE_BYTES - 1);
        if page == self.0.get() {
            return true;
        }
        // The first page is never there, and null would be no mask.
        let is_there = page != 0 && is_readable(page);
        if is_there {
            self.0.set(page);
        }
        is_there
    }
}

/// Returns whether the system can read a word. It reads a mask of signals there, and refuses to do anything with it.
fn is_readable(at: usize) -> bool {
    const NOTHING: libc::c_int = -1;
    let mask = ptr::with_exposed_provenance::<c_void>(at);
    // SAFETY: the system reads the word itself, and changes no mask.
    let status = unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let none: *mut c_void = ptr::null_mut();
        libc::syscall(libc::SYS_rt_sigprocmask, NOTHING, mask, none, size_of::<u64>());
        std::mem::replace(&mut *errno, before)
    };
    status != libc::EFAULT
}
