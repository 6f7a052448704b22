//! Opens a file for the time of one call, by direct system calls: in a child of `vfork`, or under a filter of system
//! calls.

use std::{ffi::CStr, mem::MaybeUninit};

use libc::c_int;

use super::errno::keeping_errno;

/// How to open a file for reading without waiting for a pipe.
pub(crate) const READ: c_int = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;

/// Opens a file and closes it again, without a place where a thread could be cancelled.
pub(crate) fn with_file<T>(path: &CStr, how: c_int, work: impl FnOnce(c_int) -> T) -> Option<T> {
    const MODE: c_int = 0o600;
    keeping_errno(|| {
        // SAFETY: the path ends in nul.
        let file = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), how, MODE) };
        let file = c_int::try_from(file).ok().filter(|file| *file >= 0)?;
        let done = work(file);
        // SAFETY: it was opened here.
        unsafe { libc::syscall(libc::SYS_close, file) };
        Some(done)
    })
}

/// Returns the system's information on a file that is not a folder, device or pipe.
pub(crate) fn plain(file: c_int) -> Option<libc::stat> {
    let mut found = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the system writes into it; zeros are a value of the fields.
    let found = unsafe { (libc::fstat(file, found.as_mut_ptr()) == 0).then(|| found.assume_init())? };
    (found.st_mode & libc::S_IFMT == libc::S_IFREG).then_some(found)
}

/// Reads the start of a file, and returns how much there is.
pub(crate) fn read(file: c_int, room: &mut [u8]) -> usize {
    // SAFETY: the system writes at most as many bytes as there are.
    let n = unsafe { libc::syscall(libc::SYS_read, file, room.as_mut_ptr(), room.len()) };
    usize::try_from(n).unwrap_or(0)
}
