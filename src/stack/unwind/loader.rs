//! Which loaded file an address belongs to, and where its unwind tables are.
//!
//! glibc 2.35 and newer tell it without a lock (`_dl_find_object`), so it can
//! be asked from inside any allocator. On older ones `dl_iterate_phdr` takes
//! the loader's lock, on a miss only.

use std::{
    ffi::c_void,
    hash::Hasher,
    mem, ptr, slice,
    sync::atomic::{AtomicPtr, Ordering},
};

use libc::{Elf64_Ehdr, Elf64_Phdr, PT_GNU_EH_FRAME, PT_LOAD, PT_NOTE, dl_phdr_info};
use rustc_hash::FxHasher;

/// glibc's answer, `dlfcn.h`.
#[repr(C)]
struct FoundObject {
    flags: u64,
    map_start: *const u8,
    map_end: *const u8,
    /// A `struct link_map`, of which the first word is the load bias.
    link_map: *const usize,
    eh_frame: *const u8,
    reserved: [u64; 7],
}

type FindObject = unsafe extern "C" fn(*const c_void, *mut FoundObject) -> i32;

static FIND_OBJECT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Finds out how to ask. Takes the loader's lock: call it before the first capture.
pub(super) fn prepare() {
    // SAFETY: the name ends with a zero byte, and `dlsym` keeps nothing of it.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
    FIND_OBJECT.store(found, Ordering::Relaxed);
}

/// A loaded file, as far as unwinding needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Module {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The address of the `.eh_frame_hdr` section.
    pub(super) eh_frame_hdr: usize,
    bias: usize,
    phdrs: *const Elf64_Phdr,
    n_phdrs: usize,
}

impl Module {
    /// The file that holds an address of code that is running on this thread's stack.
    pub(super) fn of(address: usize) -> Option<Module> {
        let find = FIND_OBJECT.load(Ordering::Relaxed);
        if find.is_null() {
            return by_iteration(address);
        }
        match by_find_object(find, address) {
            Found::Module(module) => Some(module),
            Found::Nothing => None,
            Found::Unreadable => by_iteration(address),
        }
    }

    /// The bytes from an address to the end of the segment that holds it.
    pub(super) fn bytes_from(&self, address: usize) -> Option<&[u8]> {
        let end = self.phdrs().iter().find_map(|phdr| {
            let start = self.bias.wrapping_add(phdr.p_vaddr as usize);
            let end = start.checked_add(phdr.p_filesz as usize)?;
            (phdr.p_type == PT_LOAD && (start..end).contains(&address)).then_some(end)
        })?;
        // SAFETY: the loader mapped this segment readable from `start` to
        // `end`, and keeps it while code of the module is on our stack, which
        // is what `of` is asked about. Unwind tables are not written to.
        Some(unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(address), end - address) })
    }

    /// Tells this file from another that is loaded at the same addresses later.
    ///
    /// By its notes, of which the build id is one; where a file has none, by its unwind tables.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = FxHasher::default();
        hasher.write_usize(self.eh_frame_hdr);
        let mut n_noted = 0;
        for phdr in self.phdrs().iter().filter(|phdr| phdr.p_type == PT_NOTE) {
            let address = self.bias.wrapping_add(phdr.p_vaddr as usize);
            let bytes = self.bytes_from(address).unwrap_or_default();
            let notes = &bytes[..bytes.len().min(phdr.p_filesz as usize).min(512)];
            hasher.write(notes);
            n_noted += notes.windows(4).filter(|window| window == b"GNU\0").count();
        }
        // One note may be the list of wanted processor features, which two files share.
        let n_bytes = if n_noted > 1 { 512 } else { 1 << 16 };
        let tables = self.bytes_from(self.eh_frame_hdr).unwrap_or_default();
        hasher.write(&tables[..tables.len().min(n_bytes)]);
        hasher.finish()
    }

    fn phdrs(&self) -> &[Elf64_Phdr] {
        // SAFETY: both makers of a `Module` have these from the loader or from
        // the file's mapped header, which lives as long as the module.
        unsafe { slice::from_raw_parts(self.phdrs, self.n_phdrs) }
    }

    fn holds(&self, address: usize) -> bool {
        self.phdrs().iter().any(|phdr| {
            let start = self.bias.wrapping_add(phdr.p_vaddr as usize);
            phdr.p_type == PT_LOAD && address.wrapping_sub(start) < phdr.p_memsz as usize
        })
    }
}

/// What the loader says of an address.
enum Found {
    Module(Module),
    /// No code of any file.
    Nothing,
    /// A file whose program headers are not in its first page, where linkers put them.
    Unreadable,
}

fn by_find_object(find: *mut c_void, address: usize) -> Found {
    // SAFETY: `prepare` stored what `dlsym` found under this name, whose type
    // `dlfcn.h` gives so; null was ruled out by the caller.
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
    // SAFETY: a loaded file's `link_map` begins with its load bias, and its
    // mapping is at least a page.
    let (bias, header) = unsafe { (*found.link_map, &*found.map_start.cast::<Elf64_Ehdr>()) };
    let is_elf =
        header.e_ident.starts_with(b"\x7fELF") && header.e_phentsize as usize == size_of::<Elf64_Phdr>();
    let (start, end) = (found.map_start.expose_provenance(), found.map_end.addr());
    let phdrs_bytes = usize::from(header.e_phnum) * size_of::<Elf64_Phdr>();
    let past_phdrs = (header.e_phoff as usize).saturating_add(phdrs_bytes);
    if !is_elf || header.e_phoff % 8 != 0 || past_phdrs > 4096 || past_phdrs > end - start {
        return Found::Unreadable;
    }
    // SAFETY: the program headers are within the first page of the mapping, as checked above.
    let phdrs = unsafe { found.map_start.add(header.e_phoff as usize).cast() };
    let n_phdrs = usize::from(header.e_phnum);
    let eh_frame_hdr = found.eh_frame.expose_provenance();
    Found::Module(Module { start, end, eh_frame_hdr, bias, phdrs, n_phdrs })
}

fn by_iteration(address: usize) -> Option<Module> {
    struct Search {
        address: usize,
        found: Option<Module>,
    }
    unsafe extern "C" fn visit(info: *mut dl_phdr_info, _: usize, search: *mut c_void) -> i32 {
        // SAFETY: `dl_iterate_phdr` hands on what it was given, and a filled `info`.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
        let mut module = Module {
            start: usize::MAX,
            end: 0,
            eh_frame_hdr: 0,
            bias: info.dlpi_addr as usize,
            phdrs: info.dlpi_phdr,
            n_phdrs: usize::from(info.dlpi_phnum),
        };
        if info.dlpi_phdr.is_null() || !module.holds(search.address) {
            return 0;
        }
        let (bias, phdrs) = (module.bias, info.dlpi_phdr);
        // SAFETY: as `Module::phdrs`; taken apart from `module` so that it can be written to.
        for phdr in unsafe { slice::from_raw_parts(phdrs, module.n_phdrs) } {
            let start = bias.wrapping_add(phdr.p_vaddr as usize);
            match phdr.p_type {
                PT_LOAD => {
                    module.start = module.start.min(start);
                    module.end = module.end.max(start.wrapping_add(phdr.p_memsz as usize));
                }
                PT_GNU_EH_FRAME => module.eh_frame_hdr = start,
                _ => {}
            }
        }
        search.found = (module.eh_frame_hdr != 0).then_some(module);
        1
    }
    let mut search = Search { address, found: None };
    // SAFETY: `visit` gets the search it expects, and neither outlives this call.
    unsafe { libc::dl_iterate_phdr(Some(visit), ptr::from_mut(&mut search).cast()) };
    search.found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_find_the_same_files() {
        prepare();
        let find = FIND_OBJECT.load(Ordering::Relaxed);
        let here = both_ways_find_the_same_files as fn() as usize;
        // SAFETY: the name ends with a zero byte.
        let in_libc = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"qsort".as_ptr()) }.addr();
        for address in [here, in_libc] {
            let slow = by_iteration(address).expect("a loaded address");
            assert!((slow.start..slow.end).contains(&address));
            assert!(slow.bytes_from(slow.eh_frame_hdr).is_some_and(|bytes| bytes[0] == 1), "version 1");
            if !find.is_null() {
                let Found::Module(fast) = by_find_object(find, address) else { panic!("a loaded address") };
                assert_eq!(
                    (fast.eh_frame_hdr, fast.bias, fast.n_phdrs),
                    (slow.eh_frame_hdr, slow.bias, slow.n_phdrs)
                );
            }
        }
        let local = 0_u8;
        assert!(Module::of(ptr::from_ref(&local).addr()).is_none(), "the stack is no code");
    }
}
