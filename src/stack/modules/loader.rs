//! Reads the dynamic loader's list of modules, entry by entry, and the counters that show its changes.
//!
//! While the process forks, the loader is not called, because its lock would stay locked in the child for ever.
//!
//! Only on 64-bit Linux is the loader called. Elsewhere there is no list, and the `backtrace` crate finds names.

/// The numbers of modules that were ever loaded and unloaded: if both are unchanged, so is the list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(in crate::stack) struct Version {
    pub(super) n_loaded: u64,
    pub(super) n_unloaded: u64,
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub(in crate::stack) use linux::hold;
#[cfg(all(target_os = "linux", target_pointer_width = "64", test))]
pub(in crate::stack) use linux::while_forking;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub(super) use linux::{Entry, each, started_headers, version};

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
pub(super) fn version() -> Option<Version> {
    Some(Version::default())
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
pub(in crate::stack) fn hold(_: &mut crate::process::fork::Held) {}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod linux {
    use std::{
        cell::Cell,
        ffi::{CStr, c_char, c_int, c_void},
        marker::PhantomData,
        ops::ControlFlow,
        sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    };

    use super::{
        super::{fingerprint::Header, mapping::Mapping},
        Version,
    };
    use memreel_lockfree::sync::ReentryGuard;

    // The loader's program headers are read as those of a file.
    const _: () = assert!(size_of::<Header>() == size_of::<libc::Elf64_Phdr>());
    const _: () = assert!(align_of::<Header>() <= align_of::<libc::Elf64_Phdr>());

    /// A module in the list, valid under the loader's lock.
    pub(in super::super) struct Entry<'a> {
        name: *const c_char,
        pub(in super::super) mapping: Mapping,
        pub(in super::super) version: Version,
        of_loader: PhantomData<&'a CStr>,
    }

    impl Entry<'_> {
        /// Returns the loader's name; empty for the program.
        pub(in super::super) fn name(&self) -> &CStr {
            if self.name.is_null() {
                return c"";
            }
            // SAFETY: a name in the loader's list ends in a zero and lives as long as the entry.
            unsafe { CStr::from_ptr(self.name) }
        }
    }

    thread_local! {
        /// Whether this thread is inside a call of the loader.
        static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
    }

    /// How many threads are inside a call of the loader.
    static N_INSIDE: AtomicUsize = AtomicUsize::new(0);
    /// Whether the process is forking.
    static IS_FORKING: AtomicBool = AtomicBool::new(false);

    /// Keeps all threads out of the loader during a fork. A thread inside it may wait for another one that needs a lock
    /// of memreel, so this comes before the first of these locks.
    pub(in crate::stack) fn hold(held: &mut crate::process::fork::Held) {
        IS_FORKING.store(true, Ordering::SeqCst);
        held.wait(|| N_INSIDE.load(Ordering::SeqCst) == 0);
        held.call(|| N_INSIDE.store(0, Ordering::SeqCst), || IS_FORKING.store(false, Ordering::SeqCst));
    }

    /// Calls `work` as if the process was forking.
    #[cfg(test)]
    pub(in crate::stack) fn while_forking<T>(work: impl FnOnce() -> T) -> T {
        IS_FORKING.store(true, Ordering::SeqCst);
        let done = work();
        IS_FORKING.store(false, Ordering::SeqCst);
        done
    }

    /// Returns the loader's two counters, from its first entry alone; `None` if it cannot be called now. Costs about 50
    /// ns, and takes the loader's lock.
    pub(in super::super) fn version() -> Option<Version> {
        let mut version = None;
        each(&mut |entry| {
            version = Some(entry.version);
            ControlFlow::Break(())
        });
        version
    }

    /// Returns the address of the program headers of what the kernel started.
    pub(in super::super) fn started_headers() -> usize {
        // SAFETY: any value may be asked for.
        unsafe { libc::getauxval(libc::AT_PHDR) as usize }
    }

    /// Calls `see` with each entry of the loader's list until it breaks. Takes the loader's lock. Returns whether the
    /// loader was called.
    ///
    /// `see` must neither panic nor call the loader. No mapping outlives the module that it shows: under the lock
    /// no module is unloaded.
    pub(in super::super) fn each(see: &mut dyn FnMut(&Entry<'_>) -> ControlFlow<()>) -> bool {
        // A signal handler may interrupt a thread inside the loader, which must not be re-entered.
        let Some(_guard) = ReentryGuard::enter(&IS_INSIDE) else { return false };
        N_INSIDE.fetch_add(1, Ordering::SeqCst);
        // Miri has no loader.
        let may_ask = !IS_FORKING.load(Ordering::SeqCst) && !cfg!(miri);
        if may_ask {
            ask(see);
        }
        N_INSIDE.fetch_sub(1, Ordering::SeqCst);
        may_ask
    }

    fn ask(see: &mut dyn FnMut(&Entry<'_>) -> ControlFlow<()>) {
        type See<'a> = &'a mut dyn FnMut(&Entry<'_>) -> ControlFlow<()>;
        unsafe extern "C" fn call(info: *mut libc::dl_phdr_info, _: usize, see: *mut c_void) -> c_int {
            // SAFETY: `see` is the pointer that `dl_iterate_phdr` is given
            // below, to a `See` that outlives the walk and is used by it alone.
            let see = unsafe { &mut *see.cast::<See<'_>>() };
            // SAFETY: the loader passes an entry that is valid during this call.
            // Since glibc 2.4 and musl 1.0 it has the counters.
            c_int::from(see(&entry(unsafe { &*info })).is_break())
        }
        let mut see: See<'_> = see;
        // SAFETY: `call` is made for the pointer that it gets; see there.
        unsafe { libc::dl_iterate_phdr(Some(call), (&raw mut see).cast()) };
    }

    fn entry(info: &libc::dl_phdr_info) -> Entry<'_> {
        let n_headers = if info.dlpi_phdr.is_null() { 0 } else { usize::from(info.dlpi_phnum) };
        // SAFETY: the loader keeps this number of headers there for as long as the module is in
        // its list. `Header` has their layout, as asserted above.
        let mapping = unsafe { Mapping::new(info.dlpi_addr as usize, info.dlpi_phdr.cast(), n_headers) };
        let version = Version { n_loaded: info.dlpi_adds, n_unloaded: info.dlpi_subs };
        Entry { name: info.dlpi_name, mapping, version, of_loader: PhantomData }
    }
}
