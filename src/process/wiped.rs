//! Children of this process that no handler of forks saw, such as those of `_Fork` and of the system call `clone`.
//!
//! Such a child has the memory of its parent, and the tape of its parent is still mapped: it must neither write there nor
//! wait for locks that other threads had. The system gives each child one page as zeros (`MADV_WIPEONFORK`), and the
//! handler of a fork that has handlers writes into it again. So a zero there is the mark of such a child.

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// What is read until there is a page.
static NO_PAGE: AtomicBool = AtomicBool::new(true);

/// Whether this process is one whose forks were seen.
static IS_KNOWN: AtomicPtr<AtomicBool> = AtomicPtr::new((&raw const NO_PAGE).cast_mut());

/// Returns whether this process is a child whose fork no handler saw. It costs two loads.
#[inline(always)]
pub(crate) fn is_stranger() -> bool {
    // SAFETY: the static above, or a page that is never unmapped.
    !unsafe { &*IS_KNOWN.load(Ordering::Relaxed) }.load(Ordering::Relaxed)
}

/// Marks this process as known: it is the first, or a handler saw the fork.
pub(crate) fn mark() {
    // SAFETY: as above.
    unsafe { &*IS_KNOWN.load(Ordering::Relaxed) }.store(true, Ordering::Relaxed);
}

/// Makes the page, once a process. If the system refuses it, children that no handler saw are not found.
pub(crate) fn install() {
    #[cfg(all(target_os = "linux", not(miri)))]
    if let Some(page) = page() {
        // SAFETY: a page of zeros that is never unmapped.
        unsafe { &*page }.store(true, Ordering::Relaxed);
        IS_KNOWN.store(page, Ordering::Release);
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn page() -> Option<*mut AtomicBool> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    const PAGE_BYTES: usize = 4096;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, which no one else knows; it is unmapped only here, before it is returned.
    unsafe {
        let page = mmap_anonymous(std::ptr::null_mut(), PAGE_BYTES, access, MapFlags::PRIVATE).ok()?;
        if madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork).is_err() {
            let _ = munmap(page, PAGE_BYTES);
            return None;
        }
        Some(page.cast())
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;
    use crate::process::fork;

    /// Returns what a child finds that this makes.
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
            let clone = || libc::syscall(libc::SYS_clone, libc::SIGCHLD, none, none, none, none) as libc::pid_t;
            (in_child(|| libc::fork()), in_child(clone))
        };
        assert_eq!((seen, unseen, is_stranger()), (0, 1, false));
    }
}
