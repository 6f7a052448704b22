//! The functions behind this library: those of glibc, or of another allocator that is preloaded too.

use std::{
    cell::Cell,
    ffi::{CStr, c_int, c_void},
    mem::transmute,
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

thread_local! {
    /// Whether this thread is looking functions up.
    static IS_LOOKING: Cell<bool> = const { Cell::new(false) };
}

/// A function behind this library.
pub(crate) struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Next {
        Next { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Returns the address; null while this thread looks one up, and if there is none.
    #[inline]
    fn address(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() { self.look_up() } else { found }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        if IS_LOOKING.replace(true) {
            return ptr::null_mut();
        }
        // SAFETY: the name ends in nul.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        IS_LOOKING.set(false);
        found
    }
}

macro_rules! functions {
    ($($name:ident: fn($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            /// The next function of this name; `None` while this thread looks one up.
            #[inline]
            pub(crate) fn $name() -> Option<unsafe extern "C" fn($($type),*) -> $result> {
                static NEXT: Next = Next::new(
                    match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!(),
                    },
                );
                // SAFETY: null is `None`; the C library fixes the type of a function of this name.
                unsafe { transmute::<*mut c_void, Option<unsafe extern "C" fn($($type),*) -> $result>>(NEXT.address()) }
            }
        )*
    };
}

functions! {
    malloc: fn(bytes: usize) -> *mut c_void;
    calloc: fn(n: usize, bytes: usize) -> *mut c_void;
    realloc: fn(block: *mut c_void, bytes: usize) -> *mut c_void;
    free: fn(block: *mut c_void) -> ();
    memalign: fn(align: usize, bytes: usize) -> *mut c_void;
    aligned_alloc: fn(align: usize, bytes: usize) -> *mut c_void;
    posix_memalign: fn(out: *mut *mut c_void, align: usize, bytes: usize) -> c_int;
    valloc: fn(bytes: usize) -> *mut c_void;
    pvalloc: fn(bytes: usize) -> *mut c_void;
    pthread_getattr_np: fn(thread: libc::pthread_t, attributes: *mut libc::pthread_attr_t) -> c_int;
}
