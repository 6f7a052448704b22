//! A thread-local value that is dropped at its thread's end, without the loader's lock.
//!
//! For a thread-local with a destructor std calls `__cxa_thread_atexit_impl`, which takes the loader's lock. A thread
//! that opens a library has this lock while the library's constructors run, and they may wait for a thread that makes a
//! report. So what a report uses has the destructor of a `pthread` key, which takes no lock.

use std::thread::LocalKey;

#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) use of_key::{UntilEnd, stay_loaded};

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) fn stay_loaded() {}

/// A value with std's own destructor, because no report comes from a library that is being opened.
#[cfg(not(all(target_os = "linux", not(miri))))]
#[derive(Debug)]
pub(crate) struct UntilEnd<T>(T);

#[cfg(not(all(target_os = "linux", not(miri))))]
impl<T> UntilEnd<T> {
    pub(crate) const fn new(value: T) -> UntilEnd<T> {
        UntilEnd(value)
    }

    fn get(&self) -> Option<&T> {
        Some(&self.0)
    }
}

/// Calls `work` with this thread's value; `None` if it was dropped.
#[inline(always)]
pub(crate) fn with<T, R>(place: &'static LocalKey<UntilEnd<T>>, work: impl FnOnce(&T) -> R) -> Option<R> {
    place.try_with(|place| place.get().map(work)).ok().flatten()
}

#[cfg(all(target_os = "linux", not(miri)))]
mod of_key {
    use std::{
        cell::{Cell, UnsafeCell},
        ffi::c_void,
        mem::{ManuallyDrop, MaybeUninit},
        ptr,
        sync::atomic::{AtomicBool, AtomicU64, Ordering},
    };

    use libc::pthread_key_t;

    use crate::process::guard::Guard;

    /// The key for all values of all threads, with 1 in its upper half; 0 before the first value.
    static KEY: AtomicU64 = AtomicU64::new(0);

    const IS_MADE: u64 = 1 << 32;

    /// The most bytes between the start of a program and its program headers.
    const HEADER_BYTES: usize = 4096;

    #[allow(clippy::cast_possible_truncation, reason = "the lower half is the key")]
    fn key_of(word: u64) -> Option<pthread_key_t> {
        (word & IS_MADE != 0).then_some(word as pthread_key_t)
    }

    /// Returns the key, created by the first call; `None` if the process has no more keys.
    fn key() -> Option<pthread_key_t> {
        // Relaxed, as below: the key refers to no memory.
        let known = key_of(KEY.load(Ordering::Relaxed));
        if known.is_some() {
            return known;
        }
        let mut new = 0;
        // SAFETY: the key is written to a local variable; `end` gets the first value of a thread.
        if unsafe { libc::pthread_key_create(&raw mut new, Some(end)) } != 0 {
            return None;
        }
        let word = u64::from(new) | IS_MADE;
        match KEY.compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Some(new),
            Err(of_other) => {
                // SAFETY: made above, and no value has it.
                unsafe { libc::pthread_key_delete(new) };
                key_of(of_other)
            }
        }
    }

    /// Keeps the library that contains this code loaded, because ending threads call it. It takes the loader's lock, so
    /// it is called when a recorder is created.
    pub(crate) fn stay_loaded() {
        static IS_DONE: AtomicBool = AtomicBool::new(false);
        // Relaxed: nothing waits for it.
        if IS_DONE.swap(true, Ordering::Relaxed) {
            return;
        }
        // The loader's allocations are the recorder's own.
        let _own = Guard::enter();
        let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: the loader writes whose the address is, which is read after success; its name of a library ends in nul. Nothing
        // is loaded, and the program itself, whose headers the kernel names, is not asked for.
        unsafe {
            if libc::dladdr(end as *const c_void, found.as_mut_ptr()) == 0 {
                return;
            }
            let found = found.assume_init();
            let of_program = libc::getauxval(libc::AT_PHDR) as usize;
            if of_program.wrapping_sub(found.dli_fbase.addr()) >= HEADER_BYTES {
                let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
                libc::dlopen(found.dli_fname, flags);
            }
        }
    }

    /// A value without a std destructor.
    #[repr(C)]
    pub(crate) struct UntilEnd<T> {
        /// The first field, so that both have the same address.
        place: Place,
        value: UnsafeCell<ManuallyDrop<T>>,
    }

    /// The fields that do not depend on the type.
    struct Place {
        state: Cell<State>,
        /// The value that this thread registered before; null for its first.
        before: Cell<*const Place>,
        /// Drops the value of a place.
        drop: unsafe fn(*const Place),
    }

    #[derive(Clone, Copy, PartialEq, Eq)]
    enum State {
        New,
        Alive,
        /// The value was dropped, or the system had no room for its destructor.
        Ended,
    }

    impl<T> UntilEnd<T> {
        pub(crate) const fn new(value: T) -> UntilEnd<T> {
            let place =
                Place { state: Cell::new(State::New), before: Cell::new(ptr::null()), drop: drop_value::<T> };
            UntilEnd { place, value: UnsafeCell::new(ManuallyDrop::new(value)) }
        }

        #[inline(always)]
        pub(super) fn get(&self) -> Option<&T> {
            let is_alive = self.place.state.get() == State::Alive || self.register();
            // SAFETY: only `drop_value` changes the cell, and the value is not alive then.
            is_alive.then(|| unsafe { &**self.value.get() })
        }

        /// Registers the value to be dropped at the thread's end; returns whether it is alive.
        #[cold]
        #[inline(never)]
        fn register(&self) -> bool {
            // The C library may allocate for a key with a high number. Entered before the state is read: a signal
            // handler whose report registered the value in between would make the list circular.
            let _own = Guard::enter();
            if self.place.state.get() == State::New {
                let place = ptr::from_ref(self).cast::<Place>();
                let is_registered = key().is_some_and(|key| {
                    // SAFETY: a thread may read and set its value of the key.
                    unsafe {
                        self.place.before.set(libc::pthread_getspecific(key).cast_const().cast());
                        libc::pthread_setspecific(key, place.cast()) == 0
                    }
                });
                self.place.state.set(if is_registered { State::Alive } else { State::Ended });
            }
            self.place.state.get() == State::Alive
        }
    }

    /// # Safety
    /// The place is that of an `UntilEnd<T>` of this thread whose value was not dropped, and which nothing borrows.
    unsafe fn drop_value<T>(place: *const Place) {
        // SAFETY: the caller's promise.
        let this = unsafe { &*place.cast::<UntilEnd<T>>() };
        // First, so that what the drop reports finds no value.
        this.place.state.set(State::Ended);
        // SAFETY: the caller's promise.
        unsafe { ManuallyDrop::drop(&mut *this.value.get()) };
    }

    /// Drops the values of the ending thread. `last` is the one that it registered last.
    unsafe extern "C" fn end(last: *mut c_void) {
        let mut next = last.cast_const().cast::<Place>();
        // SAFETY: a thread sets its value of the key to places of its own storage, which lives longer, and each is in the
        // list once. No function of this library is under way where the C library ends a thread.
        unsafe {
            while let Some(place) = next.as_ref() {
                let this = next;
                next = place.before.get();
                (place.drop)(this);
            }
        }
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::{cell::Cell, sync::mpsc, thread};

    use super::*;

    /// Reports that it is dropped, and what its thread finds then.
    struct Told(Cell<Option<mpsc::Sender<(u32, bool)>>>, u32);

    impl Drop for Told {
        fn drop(&mut self) {
            let is_there = with(&FIRST, |_| ()).is_some();
            self.0.take().into_iter().for_each(|told| told.send((self.1, is_there)).unwrap());
        }
    }

    thread_local! {
        static FIRST: UntilEnd<Told> = const { UntilEnd::new(Told(Cell::new(None), 1)) };
        static SECOND: UntilEnd<Told> = const { UntilEnd::new(Told(Cell::new(None), 2)) };
    }

    const _: () = assert!(!std::mem::needs_drop::<UntilEnd<Told>>());

    #[test]
    fn each_value_is_dropped_once_when_its_thread_ends() {
        let (told, all) = mpsc::channel();
        for _ in 0..3 {
            let (first, second) = (told.clone(), told.clone());
            let work = || {
                assert_eq!(with(&FIRST, |value| value.0.set(Some(first))), Some(()));
                assert_eq!(with(&SECOND, |value| value.0.set(Some(second))), Some(()));
                assert_eq!(with(&FIRST, |value| value.1), Some(1));
            };
            thread::spawn(work).join().unwrap();
            // The last is dropped first.
            assert_eq!(all.try_iter().collect::<Vec<_>>(), [(2, true), (1, false)]);
        }
    }
}
