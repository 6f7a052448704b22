//! The functions after this library: those of glibc, of the C++ library, or of another allocator.

use std::{
    ffi::{CStr, c_int, c_void},
    mem::transmute,
    ptr,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering},
};

use super::{
    apart::silently,
    libraries::{self, forget_error},
};

/// Whether all functions of C were looked up.
static IS_READY: AtomicBool = AtomicBool::new(false);

/// Whether a function is looked up before. The process has one thread then, and a thread's own storage may not work yet:
/// AddressSanitizer looks its functions up too, and that of storage is among them.
static IS_LOOKING: AtomicBool = AtomicBool::new(false);

/// A function after this library.
pub(crate) struct Next {
    name: &'static CStr,
    /// Stored with release: a thread that calls the function sees its library as loaded.
    found: AtomicPtr<c_void>,
    /// How many libraries were loaded so far when none had the function. Relaxed: compared, and nothing is read because of it.
    absent_at: AtomicU64,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Next {
        Next { name, found: AtomicPtr::new(ptr::null_mut()), absent_at: AtomicU64::new(0) }
    }

    /// Returns the address in the libraries after this one; null while the first ones are looked up, and if there is
    /// none.
    #[inline]
    fn address(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Acquire);
        if found.is_null() { self.look_up() } else { found }
    }

    /// Returns the address in any library. A library that `dlopen` opened only for its opener does not come after this
    /// one.
    #[inline]
    pub(crate) fn address_anywhere(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Acquire);
        if found.is_null() { self.look_everywhere() } else { found }
    }

    #[cold]
    fn look_everywhere(&self) -> *mut c_void {
        let n_loaded = libraries::n_loaded();
        if self.absent_at.load(Ordering::Relaxed) == n_loaded {
            return ptr::null_mut();
        }
        let mut found = self.look_up();
        if found.is_null() {
            found = libraries::find(self.name);
            self.found.store(found, Ordering::Release);
        }
        if found.is_null() {
            self.absent_at.store(n_loaded, Ordering::Relaxed);
        }
        found
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        let is_first = !IS_READY.load(Ordering::Acquire);
        if is_first && IS_LOOKING.swap(true, Ordering::Acquire) {
            return ptr::null_mut();
        }
        let found = in_order(self.name);
        self.found.store(found, Ordering::Release);
        if is_first {
            IS_LOOKING.store(false, Ordering::Release);
        }
        found
    }
}

/// Returns the next function of a name, in the order of the program. What the loader allocates and frees for that is not
/// reported: a first report would allocate, while functions are not known yet.
pub(crate) fn in_order(name: &CStr) -> *mut c_void {
    silently(|| {
        // SAFETY: the name ends in nul.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        if found.is_null() {
            forget_error();
        }
        found
    })
}

/// The name of a function, in the loader's form.
macro_rules! named {
    ($name:ident) => {
        match ::std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!(),
        }
    };
}

pub(crate) use named;

macro_rules! functions {
    ($($name:ident: fn($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            /// The next function of this name; `None` while the first ones are looked up.
            #[inline]
            pub(crate) fn $name() -> Option<unsafe extern "C-unwind" fn($($type),*) -> $result> {
                static NEXT: Next = Next::new(named!($name));
                // SAFETY: null is `None`; the C library fixes the type of a function of this name.
                unsafe {
                    transmute::<*mut c_void, Option<unsafe extern "C-unwind" fn($($type),*) -> $result>>(NEXT.address())
                }
            }
        )*

        /// Looks all of them up. `dlsym` frees the text of an error before it forgets it: if it had to be called to find
        /// that `free`, the text would be freed twice.
        pub(crate) fn find_all() {
            $(let _ = $name();)*
            IS_READY.store(true, Ordering::Release);
        }
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
    sigaltstack: fn(new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int;
    pthread_attr_setstack: fn(attributes: *mut libc::pthread_attr_t, lowest: *mut c_void, bytes: usize) -> c_int;
    pthread_attr_setstacksize: fn(attributes: *mut libc::pthread_attr_t, bytes: usize) -> c_int;
    mmap: fn(address: *mut c_void, bytes: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> *mut c_void;
    munmap: fn(address: *mut c_void, bytes: usize) -> c_int;
    mremap: fn(old: *mut c_void, old_bytes: usize, bytes: usize, flags: c_int, new: *mut c_void) -> *mut c_void;
    shmat: fn(number: c_int, address: *const c_void, flags: c_int) -> *mut c_void;
    brk: fn(end: *mut c_void) -> c_int;
    sbrk: fn(bytes: isize) -> *mut c_void;
    __register_atfork: fn(prepare: Option<extern "C" fn()>, parent: Option<extern "C" fn()>, child: Option<extern "C" fn()>, library: *mut c_void) -> c_int;
    pthread_attr_destroy: fn(attributes: *mut libc::pthread_attr_t) -> c_int;
    pthread_getattr_np: fn(thread: libc::pthread_t, attributes: *mut libc::pthread_attr_t) -> c_int;
}
