//! The module at an address, found from inside any allocator.
//!
//! glibc 2.35 and newer answer without a lock (`_dl_find_object`). On older ones
//! `dl_iterate_phdr` takes the loader's lock, for addresses that are new to the rule cache only.

use std::{
    ffi::c_void,
    mem,
    ops::ControlFlow,
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

use libc::{Elf64_Ehdr, Elf64_Phdr};

use super::{loader, mapping::Mapping};

/// The answer of `_dl_find_object`, `dlfcn.h`.
#[repr(C)]
struct FoundObject {
    flags: u64,
    map_start: *const u8,
    map_end: *const u8,
    /// A `struct link_map`, whose first word is the load bias.
    link_map: *const usize,
    eh_frame: *const u8,
    reserved: [u64; 7],
}

type FindObject = unsafe extern "C" fn(*const c_void, *mut FoundObject) -> i32;

static FIND_OBJECT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Looks up how to ask. Takes the loader's lock, so it is called before the first capture.
pub(in crate::stack) fn prepare() {
    // SAFETY: the name ends with a zero byte, and `dlsym` keeps nothing of it.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
    FIND_OBJECT.store(found, Ordering::Relaxed);
}

/// Returns the module of an address of code that is running on this thread's stack, if it has
/// an unwind table.
///
/// The mapping is valid while that code is running: its module cannot be unloaded before.
pub(in crate::stack) fn find(address: usize) -> Option<Mapping> {
    let find = FIND_OBJECT.load(Ordering::Relaxed);
    let found = if find.is_null() { Found::Unreadable } else { by_find_object(find, address) };
    let mapping = match found {
        Found::Module(mapping) => Some(mapping),
        Found::Nothing => None,
        Found::Unreadable => by_iteration(address),
    };
    mapping.filter(|mapping| mapping.unwind_index().is_some())
}

/// The answer of `_dl_find_object` about an address.
enum Found {
    Module(Mapping),
    /// No code of any module.
    Nothing,
    /// A module whose program headers are not in its first page, where linkers put them.
    Unreadable,
}

fn by_find_object(find: *mut c_void, address: usize) -> Found {
    // SAFETY: `prepare` stored what `dlsym` found under this name, whose type
    // is declared so in `dlfcn.h`; the caller excluded null.
    let find = unsafe { mem::transmute::<*mut c_void, FindObject>(find) };
    let mut found = FoundObject {
        flags: 0,
        map_start: ptr::null(),
        map_end: ptr::null(),
        link_map: ptr::null(),
        eh_frame: ptr::null(),
        reserved: [0; 7],
    };
    // SAFETY: the answer has the size that glibc writes, reserved words included.
    let status = unsafe { find(ptr::without_provenance(address), &mut found) };
    if status != 0 || found.eh_frame.is_null() || found.link_map.is_null() {
        return Found::Nothing;
    }
    mapping_of(&found).map_or(Found::Unreadable, Found::Module)
}

fn mapping_of(found: &FoundObject) -> Option<Mapping> {
    // SAFETY: the `link_map` of a loaded module begins with its load bias, and its
    // mapping is at least a page.
    let (bias, header) = unsafe { (*found.link_map, &*found.map_start.cast::<Elf64_Ehdr>()) };
    let is_elf =
        header.e_ident.starts_with(b"\x7fELF") && header.e_phentsize as usize == size_of::<Elf64_Phdr>();
    // Segments are read at addresses computed from the headers.
    let (start, end) = (found.map_start.expose_provenance(), found.map_end.addr());
    let n_headers = usize::from(header.e_phnum);
    let headers_end = (header.e_phoff as usize).saturating_add(n_headers * size_of::<Elf64_Phdr>());
    if !is_elf || header.e_phoff % 8 != 0 || headers_end > 4096 || headers_end > end - start {
        return None;
    }
    // SAFETY: the program headers are within the first page of the mapping, as checked above,
    // and `loader.rs` asserts their layout.
    Some(unsafe { Mapping::new(bias, found.map_start.add(header.e_phoff as usize).cast(), n_headers) })
}

fn by_iteration(address: usize) -> Option<Mapping> {
    let mut found = None;
    loader::each(&mut |entry| {
        if !entry.mapping.contains(address) {
            return ControlFlow::Continue(());
        }
        found = Some(entry.mapping);
        ControlFlow::Break(())
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_find_the_same_modules() {
        prepare();
        let find = FIND_OBJECT.load(Ordering::Relaxed);
        let here = both_ways_find_the_same_modules as fn() as usize;
        // SAFETY: the name ends with a zero byte.
        let in_libc = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"qsort".as_ptr()) }.addr();
        for address in [here, in_libc] {
            let slow = by_iteration(address).expect("a loaded address");
            assert!(slow.span().contains(&address));
            let index = slow.unwind_index().expect("an unwind table");
            assert!(slow.bytes_from(index).is_some_and(|bytes| bytes[0] == 1), "version 1");
            if !find.is_null() {
                let Found::Module(fast) = by_find_object(find, address) else { panic!("a loaded address") };
                assert_eq!((fast.unwind_index(), fast.bias()), (slow.unwind_index(), slow.bias()));
                assert_eq!((fast.span(), fast.fingerprint()), (slow.span(), slow.fingerprint()));
            }
        }
        let local = 0_u8;
        assert!(super::find(ptr::from_ref(&local).addr()).is_none(), "the stack is not code");
    }
}
