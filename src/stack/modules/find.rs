//! Finds the modules at addresses, from inside any allocator.
//!
//! glibc 2.35 and newer return the address range of the module at an address without a lock (`_dl_find_object`). The
//! module itself is read under the loader's lock (`dl_iterate_phdr`): an address may be a leftover on the stack, and
//! another thread may unload its library at any time. This is only called for new addresses and stacks.

use std::{
    ffi::c_void,
    mem,
    ops::{ControlFlow, Range},
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

use super::{loader, mapping::Mapping};

/// The result of `_dl_find_object`, from `dlfcn.h`.
#[repr(C)]
struct FoundObject {
    flags: u64,
    map_start: *const u8,
    map_end: *const u8,
    link_map: *const usize,
    eh_frame: *const u8,
    reserved: [u64; 7],
}

type FindObject = unsafe extern "C" fn(*const c_void, *mut FoundObject) -> i32;

static FIND_OBJECT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// How many modules are searched in one pass over the loader's list.
const AT_ONCE: usize = 16;

/// Looks up `_dl_find_object`. Takes the loader's lock, so it is called before the first capture.
pub(in crate::stack) fn prepare() {
    // SAFETY: the name ends with a zero byte, and `dlsym` keeps nothing of it.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
    // Relaxed: a function of the C library, which was loaded before any thread began. If it is null, each thread
    // searches in another way.
    FIND_OBJECT.store(found, Ordering::Relaxed);
}

/// Calls `look` with each module that has an unwind table and contains one of these addresses, until it breaks. An
/// address outside all modules is skipped. Returns whether the loader could be called.
///
/// The loader's lock is held during a call of `look`, which must neither panic nor call the loader. No mapping is used
/// after the call, because the module may be unloaded then.
pub(in crate::stack) fn find(addresses: &[usize], look: &mut dyn FnMut(&Mapping) -> ControlFlow<()>) -> bool {
    let mut addresses = addresses.iter().copied();
    loop {
        let mut sought = [const { Sought { address: 0, span: None, is_found: false } }; AT_ONCE];
        let mut n = 0;
        while n < AT_ONCE
            && let Some(address) = addresses.next()
        {
            if sought[..n].iter().any(|sought| sought.covers(address)) {
                continue;
            }
            if let Some(one) = Sought::new(address) {
                sought[n] = one;
                n += 1;
            }
        }
        if n == 0 {
            return true;
        }
        // Linkers put the program headers into the first page of a module, so the second pass is rare.
        for is_strict in [true, false] {
            match pass(&mut sought[..n], is_strict, look) {
                Some(ControlFlow::Continue(())) => {}
                Some(ControlFlow::Break(())) => return true,
                None => return false,
            }
        }
    }
}

/// An address, and the address range of its module as far as it is known.
struct Sought {
    address: usize,
    span: Option<Range<usize>>,
    is_found: bool,
}

impl Sought {
    /// Returns `None` for an address in no module.
    fn new(address: usize) -> Option<Sought> {
        // Relaxed: as where it is stored.
        let find = FIND_OBJECT.load(Ordering::Relaxed);
        let span = if find.is_null() { None } else { Some(span_of(find, address)?) };
        Some(Sought { address, span, is_found: false })
    }

    fn covers(&self, address: usize) -> bool {
        self.span.as_ref().is_some_and(|span| span.contains(&address))
    }

    /// Returns whether a module may be the right one, by one comparison; always true unless `is_strict`.
    fn is_likely(&self, mapping: &Mapping, is_strict: bool) -> bool {
        !is_strict || self.span.as_ref().is_none_or(|span| span.contains(&mapping.address_of_headers()))
    }
}

/// Walks the loader's list once; `None` if the loader cannot be called now.
fn pass(
    sought: &mut [Sought],
    is_strict: bool,
    look: &mut dyn FnMut(&Mapping) -> ControlFlow<()>,
) -> Option<ControlFlow<()>> {
    let mut n_left = sought.iter().filter(|sought| !sought.is_found).count();
    let mut answer = ControlFlow::Continue(());
    if n_left == 0 {
        return Some(answer);
    }
    let is_asked = loader::each(&mut |entry| {
        let mapping = &entry.mapping;
        let is_it = |sought: &&mut Sought| {
            !sought.is_found && sought.is_likely(mapping, is_strict) && mapping.contains(sought.address)
        };
        let Some(found) = sought.iter_mut().find(is_it) else { return ControlFlow::Continue(()) };
        found.is_found = true;
        n_left -= 1;
        if mapping.unwind_index().is_some() {
            answer = look(mapping);
        }
        if n_left == 0 { ControlFlow::Break(()) } else { answer }
    });
    is_asked.then_some(answer)
}

/// Returns the address range of the module at an address, without a lock; `None` if no module with unwind tables is
/// there.
fn span_of(find: *mut c_void, address: usize) -> Option<Range<usize>> {
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
    // Nothing is read through these pointers: the module may already be gone.
    (status == 0 && !found.eh_frame.is_null()).then(|| found.map_start.addr()..found.map_end.addr())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the spans and fingerprints of the modules at addresses.
    fn found(addresses: &[usize]) -> Vec<(Range<usize>, u64)> {
        let mut found = Vec::new();
        assert!(find(addresses, &mut |mapping| {
            let index = mapping.unwind_index().expect("an unwind table");
            assert!(mapping.bytes_from(index).is_some_and(|bytes| bytes[0] == 1), "version 1");
            found.push((mapping.span(), mapping.fingerprint().bits()));
            ControlFlow::Continue(())
        }));
        found.sort_by_key(|(span, _)| span.start);
        found
    }

    #[test]
    fn each_module_is_found_once() {
        prepare();
        let here = each_module_is_found_once as fn() as usize;
        // SAFETY: the name ends with a zero byte.
        let in_libc = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"qsort".as_ptr()) }.addr();
        let local = 0_u8;
        let stack = ptr::from_ref(&local).addr();
        let both = found(&[here, in_libc, here + 1, stack, in_libc + 1]);
        assert_eq!(both.len(), 2);
        for address in [here, in_libc] {
            let one = found(&[address]);
            assert!(one[0].0.contains(&address) && both.contains(&one[0]));
        }
        assert!(found(&[stack]).is_empty(), "the stack is not code");
        let many: Vec<usize> = (0..100).flat_map(|n| [here + n, in_libc + n, stack + n]).collect();
        assert_eq!(found(&many), both);
        let mut n = 0;
        find(&[here, in_libc], &mut |_| {
            n += 1;
            ControlFlow::Break(())
        });
        assert_eq!(n, 1);
    }
}
