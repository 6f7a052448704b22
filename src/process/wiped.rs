//! Detects children of this process that no fork handler saw, such as those of `_Fork` and of the system call `clone`.
//!
//! Such a child has the memory of its parent, and the tape of its parent is still mapped: it must neither write there
//! nor wait for locks that other threads had. The system zeroes one page in each child (`MADV_WIPEONFORK`), and a fork
//! handler, if it runs, writes into it again. So a zero there marks such a child.

use std::sync::atomic::{AtomicBool, Ordering};

use super::counters::UNSEEN;

/// The largest page that a kernel of this machine may have.
const MOST_PAGE_BYTES: usize = if cfg!(target_arch = "x86_64") { 4096 } else { 64 << 10 };

/// Whether this process is one whose forks were seen, alone on its page: [`install`] replaces the page. Relaxed: it
/// changes while the process has one thread, which is why a count of it is relaxed too.
#[repr(C)]
#[cfg_attr(target_arch = "x86_64", repr(align(4096)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(align(65536)))]
struct Page(AtomicBool, [u8; MOST_PAGE_BYTES - 1]);

const _: () = assert!(align_of::<Page>() == MOST_PAGE_BYTES);

static PAGE: Page = Page(AtomicBool::new(true), [0; MOST_PAGE_BYTES - 1]);

/// Returns whether this process is a child whose fork no handler saw. It costs one load.
#[inline(always)]
pub(crate) fn is_stranger() -> bool {
    !PAGE.0.load(Ordering::Relaxed)
}

/// Counts this process, which is such a child, once.
#[cold]
pub(crate) fn count_stranger() {
    UNSEEN.count_last();
}

/// Marks this process as known: it is the first, or a handler saw the fork.
pub(crate) fn mark() {
    PAGE.0.store(true, Ordering::Relaxed);
}

/// Marks this process as one that no handler made consistent: neither it nor its children record anything.
pub(crate) fn unmark() {
    PAGE.0.store(false, Ordering::Relaxed);
}

/// Makes the system wipe the page in children, once per process. If it refuses, children that no handler saw are not
/// detected.
pub(crate) fn install() {
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    let _ = install_page();
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
fn install_page() -> rustix::io::Result<()> {
    use rustix::mm::{
        Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap_anonymous, mremap_fixed, munmap,
    };
    use std::ptr;

    let page_bytes = rustix::param::page_size();
    if page_bytes > MOST_PAGE_BYTES {
        return Err(rustix::io::Errno::NOTSUP);
    }
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the new page belongs to this function until it takes the place of the static's, in one step and with the
    // same contents; the static has the page alone.
    unsafe {
        let page = mmap_anonymous(ptr::null_mut(), page_bytes, access, MapFlags::PRIVATE)?;
        (*page.cast::<AtomicBool>()).store(true, Ordering::Relaxed);
        let place = (&raw const PAGE).cast_mut().cast();
        let moved = madvise(page, page_bytes, Advice::LinuxWipeOnFork)
            .and_then(|()| mremap_fixed(page, page_bytes, page_bytes, MremapFlags::MAYMOVE, place));
        if moved.is_err() {
            let _ = munmap(page, page_bytes);
        }
        moved.map(|_| ())
    }
}

#[cfg(all(test, target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod tests {
    use super::*;
    use crate::process::fork;

    /// Returns what a child that is created by `make` finds.
    fn in_child(make: impl FnOnce() -> libc::pid_t) -> i32 {
        let child = make();
        if child == 0 {
            let is_stranger = is_stranger();
            // SAFETY: ends the process.
            unsafe { libc::_exit(i32::from(is_stranger)) };
        }
        let mut status = -1;
        // SAFETY: the status is written to a local variable.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        libc::WEXITSTATUS(status)
    }

    #[test]
    fn a_child_is_a_stranger_if_no_handler_saw_its_fork() {
        fork::register_static(fork::Level::Modules, |_| {});
        let none: libc::c_long = 0;
        // SAFETY: the children call nothing that takes a lock.
        let (seen, unseen) = unsafe {
            let clone =
                || libc::syscall(libc::SYS_clone, libc::SIGCHLD, none, none, none, none) as libc::pid_t;
            (in_child(|| libc::fork()), in_child(clone))
        };
        assert_eq!((seen, unseen, is_stranger()), (0, 1, false));
    }
}
