//! A wrapped function of the driver: its names, its wrapper, and what the wrapper calls.

use std::{
    ffi::{CStr, c_int, c_void},
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

use super::loader;

/// The type of any function of the driver, until it is called.
pub(crate) type Function = unsafe extern "C" fn();

/// A wrapped function of the driver.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The exported name, such as `cuMemAlloc_v2`.
    pub(crate) symbol: &'static CStr,
    /// The name without version and twin, as passed to `cuGetProcAddress`.
    pub(crate) name: &'static str,
    /// The version of CUDA from which on the name means this function.
    pub(crate) since: c_int,
    /// Whether it is the twin for the default stream of each thread.
    pub(crate) is_per_thread: bool,
    pub(crate) wrapper: Function,
    /// What comes next: the driver's function, or the wrapper of a later library. Stored with release: a thread that
    /// calls it sees its library as loaded.
    next: AtomicPtr<c_void>,
    /// The driver's function. As for `next`.
    driver: AtomicPtr<c_void>,
}

impl Entry {
    pub(crate) const fn new(
        symbol: &'static CStr,
        name: &'static str,
        since: c_int,
        is_per_thread: bool,
        wrapper: Function,
    ) -> Entry {
        let (next, driver) = (AtomicPtr::new(ptr::null_mut()), AtomicPtr::new(ptr::null_mut()));
        Entry { symbol, name, since, is_per_thread, wrapper, next, driver }
    }

    /// Returns what the wrapper calls; null if there is no driver.
    #[inline]
    pub(crate) fn next(&self) -> *mut c_void {
        let next = self.next.load(Ordering::Acquire);
        if next.is_null() { self.find_next() } else { next }
    }

    /// Returns the driver's function, for calls within others; null if there is no driver.
    pub(crate) fn driver(&self) -> *mut c_void {
        let driver = self.driver.load(Ordering::Acquire);
        if !driver.is_null() {
            return driver;
        }
        let found = loader::of_driver(self.symbol);
        self.driver.store(found, Ordering::Release);
        found
    }

    /// Remembers the driver's function, which a program was about to get, and returns the wrapper in its place.
    pub(crate) fn replace(&self, found: *mut c_void) -> *mut c_void {
        let wrapper = self.wrapper as *mut c_void;
        if found != wrapper && self.driver.load(Ordering::Acquire).is_null() {
            self.driver.store(found, Ordering::Release);
        }
        wrapper
    }

    #[cold]
    fn find_next(&self) -> *mut c_void {
        let behind = loader::behind(self.symbol);
        let next =
            if behind.is_null() || behind == self.wrapper as *mut c_void { self.driver() } else { behind };
        self.next.store(next, Ordering::Release);
        next
    }
}
