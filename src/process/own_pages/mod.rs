//! An allocator with its own pages, for a library that is loaded before a program: the recorder's memory is in no heap
//! of the program, and what it frees returns to the kernel instead of looking like memory that the program keeps.
//!
//! Blocks of up to 128 KiB are in regions of 1 MiB, one size each; larger blocks are mappings. A region is in an
//! extent, a mapping of 64 MiB in which only used regions are writable: it locks and commits no memory (`mlockall`,
//! `vm.overcommit_memory=2`).
//!
//! There is one lock, held for a few instructions. A thread never waits for a lock that it has. A signal handler that
//! interrupts the lock's owner, a child of `fork` whose parent had it, and a thread that waited too long get their
//! blocks from the system's allocator.

mod pages;
mod regions;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::UnsafeCell,
    ptr::{self, null_mut},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use pages::{WRITABLE, map, unmap};
use regions::{HEADER_BYTES, Regions, is_own};

use super::{own_maps, pause};

/// An allocator with its own pages, to be a library's `#[global_allocator]`.
///
/// ```
/// use std::alloc::{GlobalAlloc, Layout};
/// use memreel::integrate::OwnPages;
///
/// let layout = Layout::from_size_align(100, 8)?;
/// // SAFETY: the layout has bytes, and the block is freed once.
/// unsafe {
///     let block = OwnPages.alloc(layout);
///     assert!(!block.is_null());
///     OwnPages.dealloc(block, layout);
/// }
/// # Ok::<(), std::alloc::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OwnPages;

const PAGE_BYTES: usize = 4096;

/// The size above which blocks are mappings.
const MOST_SMALL_BYTES: usize = 128 << 10;

/// How often a thread waits for the lock: a few seconds. The thread that has it may have been cancelled.
const MOST_TRIES: u32 = 1000;

struct Shared(UnsafeCell<Regions>);

// SAFETY: only the thread that has the lock looks at it.
unsafe impl Sync for Shared {}

static REGIONS: Shared = Shared(UnsafeCell::new(Regions::new()));

/// The thread that has the lock, identified by the address of one of its variables; 0 if no thread has it.
static OWNER: AtomicUsize = AtomicUsize::new(0);

/// The process in which the lock is valid. Relaxed: it is written while there is one thread.
static PROCESS: AtomicUsize = AtomicUsize::new(0);

/// Whether this is a child of `fork` whose parent was changing the lists: they are not used again.
static IS_BROKEN: AtomicBool = AtomicBool::new(false);

thread_local! {
    static THREAD: u8 = const { 0 };
}

/// Makes the lock valid in a child of `fork`, where no other thread exists.
pub(super) fn in_child() {
    PROCESS.store(own_process(), Ordering::Relaxed);
    let owner = OWNER.load(Ordering::Relaxed);
    if owner != 0 && owner != this_thread() {
        IS_BROKEN.store(true, Ordering::Relaxed);
        OWNER.store(0, Ordering::Release);
    }
}

fn own_process() -> usize {
    // SAFETY: it changes nothing.
    usize::try_from(unsafe { libc::syscall(libc::SYS_getpid) }).unwrap_or(0)
}

fn this_thread() -> usize {
    // The variable has no destructor, so it exists until the thread ends.
    THREAD.try_with(|thread| ptr::from_ref(thread).addr()).unwrap_or(1)
}

/// Calls `work` with the lists; `None` if this thread already has the lock, or if it will never be released.
fn with_regions<T>(work: impl FnOnce(&mut Regions) -> T) -> Option<T> {
    // Relaxed: set while there is one thread.
    if IS_BROKEN.load(Ordering::Relaxed) {
        return None;
    }
    let this = this_thread();
    let mut n_tries = 0_u32;
    while let Err(owner) = OWNER.compare_exchange_weak(0, this, Ordering::Acquire, Ordering::Relaxed) {
        if owner == this {
            return None;
        }
        n_tries += 1;
        let process = PROCESS.load(Ordering::Relaxed);
        let is_of_parent = || process != 0 && process != own_process();
        if n_tries > MOST_TRIES || n_tries.is_multiple_of(128) && is_of_parent() {
            return None;
        }
        pause::again(n_tries);
    }
    if PROCESS.load(Ordering::Relaxed) == 0 {
        PROCESS.store(own_process(), Ordering::Relaxed);
    }
    // SAFETY: this thread has the lock, and `work` does not come here again.
    let done = work(unsafe { &mut *REGIONS.0.get() });
    OWNER.store(0, Ordering::Release);
    Some(done)
}

/// Returns the index of a block's size class, and the size; `None` for a block that is a mapping.
fn size_of_block(layout: Layout) -> Option<(usize, usize)> {
    let bytes = layout.size().max(1);
    // Not all sizes above 128 bytes are multiples of 32 or more; powers of two are.
    let bytes = match layout.align() {
        0..=16 => bytes,
        align if align <= HEADER_BYTES => bytes.next_power_of_two().max(align),
        _ => return None,
    };
    if bytes > MOST_SMALL_BYTES {
        return None;
    }
    if bytes <= 128 {
        let nth = (bytes - 1) / 16;
        return Some((nth, (nth + 1) * 16));
    }
    let log = (bytes - 1).ilog2() as usize;
    let (base, step) = (1 << log, 1 << (log - 2));
    let nth = (bytes - 1 - base) / step;
    Some((8 + (log - 7) * 4 + nth, base + (nth + 1) * step))
}

/// Returns the size of the mapping for a large block, in bytes.
fn mapped_bytes(layout: Layout) -> Option<usize> {
    layout.size().checked_next_multiple_of(PAGE_BYTES).filter(|_| layout.align() <= PAGE_BYTES)
}

// SAFETY: a block is in a region and not in its lists, or has a mapping, or is the system's, and is as long and as aligned as was
// asked for. The layout and the address say which.
unsafe impl GlobalAlloc for OwnPages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if let Some((nth, size)) = size_of_block(layout) {
            let block = with_regions(|regions| regions.take(nth, size)).unwrap_or(null_mut());
            // SAFETY: the caller's promise.
            return if block.is_null() { unsafe { System.alloc(layout) } } else { block };
        }
        let Some(n_bytes) = mapped_bytes(layout) else {
            // SAFETY: the caller's promise.
            return unsafe { System.alloc(layout) };
        };
        let block = map(n_bytes, WRITABLE);
        if !block.is_null() {
            own_maps::add(block.addr(), n_bytes);
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match (size_of_block(layout), mapped_bytes(layout)) {
            // A block that cannot be returned now never is.
            (Some((nth, _)), _) if is_own(block) => _ = with_regions(|regions| regions.give(block, nth)),
            (None, Some(n_bytes)) => {
                own_maps::remove(block.addr());
                // SAFETY: the mapping of this block.
                unsafe { unmap(block, n_bytes) }
            }
            // SAFETY: a block of the system's.
            _ => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let block = unsafe { self.alloc(layout) };
        let is_new = size_of_block(layout).is_none() && mapped_bytes(layout).is_some();
        if !block.is_null() && !is_new {
            // SAFETY: a block of so many bytes.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, n_bytes: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size is one.
        let new = unsafe { Layout::from_size_align_unchecked(n_bytes, layout.align()) };
        let (old_size, new_size) = (size_of_block(layout), size_of_block(new));
        if old_size.is_some() && old_size == new_size && is_own(block) {
            return block;
        }
        if let (None, None, Some(old), Some(bytes)) =
            (old_size, new_size, mapped_bytes(layout), mapped_bytes(new))
        {
            own_maps::remove(block.addr());
            // SAFETY: the mapping of this block, which may move.
            let at = unsafe { libc::syscall(libc::SYS_mremap, block, old, bytes, libc::MREMAP_MAYMOVE) };
            let (at, bytes) = if at == -1 { (block.addr(), old) } else { (at as usize, bytes) };
            own_maps::add(at, bytes);
            return if bytes == old && n_bytes > old {
                null_mut()
            } else {
                ptr::with_exposed_provenance_mut(at)
            };
        }
        // SAFETY: the new block has room for what both have, and the old one is freed once.
        unsafe {
            let moved = self.alloc(new);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size().min(n_bytes));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::{regions::N_SIZES, *};

    #[test]
    fn a_size_has_room_and_few_bytes_too_many() {
        for bytes in (1..2000).chain([4096, 4097, 100_000, MOST_SMALL_BYTES]) {
            let (nth, size) = size_of_block(Layout::from_size_align(bytes, 8).unwrap()).unwrap();
            assert!(size >= bytes && nth < N_SIZES && size % 16 == 0, "{bytes}: {nth} {size}");
            assert!(size - bytes < 16.max(bytes / 4 + 1), "{bytes}: {size}");
            assert_eq!(size_of_block(Layout::from_size_align(size, 8).unwrap()), Some((nth, size)));
        }
        assert_eq!(size_of_block(Layout::from_size_align(MOST_SMALL_BYTES + 1, 8).unwrap()), None);
        assert_eq!(size_of_block(Layout::from_size_align(100, 64).unwrap()).unwrap().1, 128);
        assert_eq!(size_of_block(Layout::from_size_align(100, 4096).unwrap()), None);
    }

    /// Blocks of all sizes on several threads keep what is written into them.
    #[test]
    fn blocks_are_apart() {
        let work = |seed: u64| {
            let (mut state, mut live) = (seed, Vec::<(*mut u8, Layout, u8)>::new());
            let mut random = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % below
            };
            let check = |block: *mut u8, layout: Layout, mark: u8| {
                // SAFETY: a block of so many bytes.
                let bytes = unsafe { std::slice::from_raw_parts(block, layout.size()) };
                assert!(bytes.iter().all(|byte| *byte == mark), "{layout:?}");
            };
            for turn in 0..20_000_u64 {
                let mark = turn as u8;
                if random(2) == 0 && !live.is_empty() {
                    let (block, layout, mark) = live.swap_remove(random(live.len() as u64) as usize);
                    check(block, layout, mark);
                    // SAFETY: a block of this layout.
                    unsafe { OwnPages.dealloc(block, layout) };
                    continue;
                }
                let log = 1 + random(19);
                let bytes = 1 + random(1 << log) as usize;
                let layout = Layout::from_size_align(bytes, 1 << random(13)).unwrap();
                // SAFETY: the layout has bytes.
                let block = unsafe { OwnPages.alloc_zeroed(layout) };
                assert!(!block.is_null() && block.addr() % layout.align() == 0, "{layout:?}");
                check(block, layout, 0);
                // SAFETY: a block of so many bytes.
                unsafe { block.write_bytes(mark, bytes) };
                if random(4) == 0 {
                    let new = 1 + random(300_000) as usize;
                    // SAFETY: a block of this layout.
                    let moved = unsafe { OwnPages.realloc(block, layout, new) };
                    let small = Layout::from_size_align(bytes.min(new), layout.align()).unwrap();
                    check(moved, small, mark);
                    // SAFETY: a block of so many bytes.
                    unsafe { moved.write_bytes(mark, new) };
                    live.push((moved, Layout::from_size_align(new, layout.align()).unwrap(), mark));
                } else {
                    live.push((block, layout, mark));
                }
            }
            for (block, layout, mark) in live {
                check(block, layout, mark);
                // SAFETY: a block of this layout.
                unsafe { OwnPages.dealloc(block, layout) };
            }
        };
        std::thread::scope(|scope| (1..4).for_each(|seed| _ = scope.spawn(move || work(seed))));
    }

    /// A signal handler may run while the lock is held.
    #[test]
    fn a_thread_that_has_the_lock_gets_a_block_of_the_system() {
        let layout = Layout::from_size_align(100, 8).unwrap();
        // SAFETY: the layout has bytes, and the blocks are freed once.
        unsafe {
            let block = with_regions(|_| OwnPages.alloc(layout)).unwrap();
            let own = OwnPages.alloc(layout);
            assert!(!block.is_null() && !is_own(block) && is_own(own));
            with_regions(|_| OwnPages.dealloc(block, layout));
            OwnPages.dealloc(own, layout);
        }
    }
}
