//! The dynamic loader's list of modules, entry by entry, and the counters that show its changes.
//!
//! Only 64-bit Linux is asked. Elsewhere there is no list, and names are left to the
//! `backtrace` crate.

/// How many modules were ever loaded and unloaded: the list is the same while both numbers are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(in crate::stack) struct Version {
    pub(super) n_loaded: u64,
    pub(super) n_unloaded: u64,
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub(super) use linux::{Entry, each, version};

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
pub(super) fn version() -> Version {
    Version::default()
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod linux {
    use std::{
        ffi::{CStr, c_int, c_void},
        ops::ControlFlow,
    };

    use super::{
        super::{fingerprint::Header, mapping::Mapping},
        Version,
    };

    // The loader's program headers are read as those of a file.
    const _: () = assert!(size_of::<Header>() == size_of::<libc::Elf64_Phdr>());
    const _: () = assert!(align_of::<Header>() <= align_of::<libc::Elf64_Phdr>());

    /// A module in the list, under the loader's lock.
    pub(in super::super) struct Entry<'a> {
        /// The loader's name; empty for the program.
        pub(in super::super) name: &'a CStr,
        pub(in super::super) mapping: Mapping,
        pub(in super::super) version: Version,
    }

    /// The loader's two counters, from its first entry alone. Costs about 50 ns, and takes
    /// the loader's lock.
    pub(in super::super) fn version() -> Version {
        let mut version = Version::default();
        each(&mut |entry| {
            version = entry.version;
            ControlFlow::Break(())
        });
        version
    }

    /// Calls `see` with each entry of the loader's list until it breaks. Takes the loader's lock.
    ///
    /// `see` must neither panic nor call the loader. No mapping outlives the module that it shows.
    pub(in super::super) fn each(see: &mut dyn FnMut(&Entry<'_>) -> ControlFlow<()>) {
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
        let name = if info.dlpi_name.is_null() {
            c""
        } else {
            // SAFETY: a name in the loader's list ends in a zero and lives as long as the entry.
            unsafe { CStr::from_ptr(info.dlpi_name) }
        };
        let version = Version { n_loaded: info.dlpi_adds, n_unloaded: info.dlpi_subs };
        Entry { name, mapping, version }
    }
}
