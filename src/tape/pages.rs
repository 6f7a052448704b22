//! Maps parts of a tape's file. The kernel maps whole pages of 4, 16 or 64 KiB, but the offsets of parts do not depend
//! on the page size: a mapping starts with the page that contains the part's start.

use std::{
    fs::File,
    io,
    ptr::{self, NonNull},
};

use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap, mremap, munmap};

use super::cut;

/// Returns the distance of an address, or of a file offset, from the start of its page.
fn in_page(at: usize) -> usize {
    at % rustix::param::page_size()
}

/// Maps bytes of a file from the offset `at` on, which the file may not have yet. `header` is that of the tape, once it
/// is mapped.
///
/// # Errors
/// The kernel's errors.
#[allow(clippy::cast_possible_truncation)] // A page has fewer bytes than memory.
pub(super) fn map(
    file: &File,
    at: u64,
    n_bytes: usize,
    header: Option<NonNull<u8>>,
) -> io::Result<NonNull<u8>> {
    let (before, access) = (in_page(at as usize), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a new mapping at an address that the kernel chooses.
    let page = unsafe {
        mmap(ptr::null_mut(), before + n_bytes, access, MapFlags::SHARED, file, at - before as u64)
    }?;
    let part = part(page.cast(), before)?;
    cut::guard(page.cast(), before + n_bytes, header.unwrap_or(part).addr().get());
    Ok(part)
}

/// Maps what is mapped at `from` a second time, with more of the file after it. The first mapping remains.
///
/// # Errors
/// The kernel's errors.
pub(super) fn map_again(from: NonNull<u8>, n_bytes: usize) -> io::Result<NonNull<u8>> {
    let before = in_page(from.addr().get());
    let page = from.as_ptr().wrapping_sub(before);
    // SAFETY: a size of 0 makes a second mapping of what is mapped at `page`, and leaves the first.
    let page = unsafe { mremap(page.cast(), 0, before + n_bytes, MremapFlags::MAYMOVE) }?;
    if let Some(tape) = cut::tape_of(from.addr().get()) {
        cut::guard(page.cast(), before + n_bytes, tape);
    }
    part(page.cast(), before)
}

fn part(page: *mut u8, before: usize) -> io::Result<NonNull<u8>> {
    NonNull::new(page.wrapping_add(before)).ok_or_else(|| io::Error::other("the kernel mapped address 0"))
}

/// Advises the kernel that the whole pages in a part of a mapping are used one by one.
pub(super) fn advise_random(at: NonNull<u8>, n_bytes: usize) {
    let before = in_page(at.addr().get());
    let page = at.as_ptr().wrapping_sub(before);
    // SAFETY: it changes no contents, and a part that is not mapped is refused.
    let _ = unsafe { madvise(page.cast(), before + n_bytes, Advice::Random) };
}

/// Removes a mapping.
///
/// # Safety
/// [`map`] or [`map_again`] returned `at` for `n_bytes`, and the memory is used no more.
pub(super) unsafe fn unmap(at: NonNull<u8>, n_bytes: usize) {
    let before = in_page(at.addr().get());
    let page = at.as_ptr().wrapping_sub(before);
    cut::forget(page);
    // SAFETY: the caller's promise.
    let _ = unsafe { munmap(page.cast(), before + n_bytes) };
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_part_may_begin_anywhere_in_its_page() {
        let file = tempfile::tempfile().unwrap();
        let page_bytes = rustix::param::page_size();
        file.set_len(8 * page_bytes as u64).unwrap();
        for at in [0, 8, page_bytes - 8, page_bytes, 3 * page_bytes + 4096 % page_bytes] {
            file.write_all_at(&[at as u8 | 1], at as u64).unwrap();
            let n_bytes = 2 * page_bytes;
            let part = map(&file, at as u64, n_bytes, None).unwrap();
            // SAFETY: the file has these bytes, and nothing else uses the mapping.
            unsafe {
                assert_eq!(part.read(), at as u8 | 1, "{at}");
                part.add(n_bytes - 1).write(7);
                unmap(part, n_bytes);
            }
            let mut byte = [0];
            file.read_exact_at(&mut byte, (at + n_bytes - 1) as u64).unwrap();
            assert_eq!(byte, [7], "{at}");
        }
    }

    #[test]
    fn a_part_is_mapped_again_from_where_it_begins() {
        let file = tempfile::tempfile().unwrap();
        let page_bytes = rustix::param::page_size();
        file.set_len(8 * page_bytes as u64).unwrap();
        let first = map(&file, page_bytes as u64 + 24, 16, None).unwrap();
        let again = map_again(first, 2 * page_bytes).unwrap();
        // SAFETY: the file has these bytes, and nothing else uses the mappings.
        unsafe {
            first.write(5);
            assert_eq!(again.read(), 5);
            unmap(first, 16);
            again.add(2 * page_bytes - 1).write(7);
            unmap(again, 2 * page_bytes);
        }
        let mut byte = [0];
        file.read_exact_at(&mut byte, 3 * page_bytes as u64 + 23).unwrap();
        assert_eq!(byte, [7]);
    }
}
