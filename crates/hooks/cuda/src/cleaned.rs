//! Builds an environment for a program that cannot be recorded: without memreel's libraries, the loader would print a
//! line about each, and a program that may not write a tape would report that.

use std::{
    ffi::{CStr, c_char, c_void},
    fs, ptr,
};

use super::{
    brief_file::{READ, with_file},
    errno::keeping_errno,
    readable::{Text, Words},
    run,
};

pub(crate) const PRELOAD: &[u8] = b"LD_PRELOAD=";
pub(crate) const RUN: &[u8] = b"MEMREEL_RECORD=";
/// The prefix of memreel's library names.
const OURS: &[u8] = b"libmemreel_";
/// The longest path that is checked: a program may start another one on a small stack.
pub(crate) const PATH_BYTES: usize = 256;

/// The list of an environment, which ends in null.
pub(crate) type List = *const *const c_char;

unsafe extern "C" {
    /// The environment of this process.
    static mut environ: List;
}

/// Returns the environment of this process.
///
/// # Safety
/// No other thread changes it.
pub(crate) unsafe fn own() -> List {
    // SAFETY: the C library's variable.
    unsafe { environ }
}

/// Returns a variable of this process's environment, by its name with `=`; nothing in a program with more rights than its caller.
///
/// # Safety
/// No other thread changes the environment while the value is used.
pub(crate) unsafe fn variable<'a>(name: &[u8]) -> Option<&'a [u8]> {
    // SAFETY: it changes nothing.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    // SAFETY: the C library's variable.
    let words = Words::of(unsafe { environ })?;
    let at = words.texts().find(|text| text.bytes().starts_with(name))?.at();
    // SAFETY: a text of the environment, which was read to its end.
    unsafe { CStr::from_ptr(at) }.to_bytes().get(name.len()..)
}

/// Gives this process another environment where memreel's libraries are useless. The words of the old one are
/// unchanged.
///
/// # Safety
/// No other thread changes the environment.
pub(crate) unsafe fn clean() {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(cleaned) = Cleaned::of(environ) {
            environ = cleaned.list();
            // It is the environment from now on.
            std::mem::forget(cleaned);
        }
    }
}

/// Does the same, unless this process has other threads, which may be reading the environment.
pub(crate) fn clean_if_alone() {
    if fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1) {
        // SAFETY: this is the only thread.
        unsafe { clean() };
    }
}

/// An environment without memreel's libraries, in separate pages: this may be a child of `vfork`, which may not
/// allocate.
pub(crate) struct Cleaned {
    pages: *mut c_void,
    n_bytes: usize,
}

impl Cleaned {
    /// Returns the same environment without memreel's libraries, and without the folder of the run where a tape cannot be written;
    /// `None` if it has none, if they are wanted there, and if it is no memory.
    pub(crate) fn of(environment: List) -> Option<Cleaned> {
        let words = Words::of(environment)?;
        let named = |name: &[u8]| words.texts().find(|text| text.bytes().starts_with(name));
        let preload = named(PRELOAD)?;
        let libraries = || {
            let all = preload.bytes().get(PRELOAD.len()..).unwrap_or_default();
            all.split(|byte| matches!(byte, b':' | b' ')).filter(|path| !path.is_empty())
        };
        if !libraries().any(is_ours) {
            return None;
        }
        let folder = named(RUN);
        let is_left = run::is_left(|| {
            let of_run = folder.as_ref().and_then(|folder| folder.bytes().get(RUN.len()..));
            of_run.is_some_and(is_unwritable)
        });
        if !is_left && !libraries().any(|path| is_ours(path) && is_unreadable(path)) {
            return None;
        }
        let dropped = folder.filter(|_| is_left).map(|folder| folder.at());
        Cleaned::write(&words, &preload, dropped, libraries().filter(|path| !is_ours(path)))
    }

    /// Writes the words, `others` in place of all libraries, and not the word at `dropped`.
    fn write<'a>(
        words: &Words,
        preload: &Text,
        dropped: Option<*const c_char>,
        others: impl Iterator<Item = &'a [u8]>,
    ) -> Option<Cleaned> {
        let n_words = words.texts().count();
        let n_bytes = (n_words + 1) * size_of::<*const c_char>() + preload.bytes().len() + 1;
        // SAFETY: new pages, which nothing else has.
        let pages = unsafe {
            let (access, kind) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            libc::syscall(libc::SYS_mmap, ptr::null::<c_void>(), n_bytes, access, kind, -1, 0)
        };
        let pages = ptr::with_exposed_provenance_mut::<c_void>(usize::try_from(pages).ok()?);
        let cleaned = Cleaned { pages, n_bytes };
        let list = pages.cast::<*const c_char>();
        // SAFETY: the pages have room for all words and the null, and behind them for the text, which is not longer than it was.
        unsafe {
            let text = list.add(n_words + 1).cast::<u8>();
            let mut n_written = 0;
            let mut write = |part: &[u8]| {
                ptr::copy(part.as_ptr(), text.add(n_written), part.len());
                n_written += part.len();
            };
            write(PRELOAD);
            let mut others = others.peekable();
            let has_others = others.peek().is_some();
            others.enumerate().for_each(|(nth, path)| {
                write(if nth == 0 { b"" } else { b":" });
                write(path);
            });
            let kept = words.texts().map(|word| word.at()).filter(|at| Some(*at) != dropped);
            for (nth, at) in kept.filter(|at| *at != preload.at() || has_others).enumerate() {
                list.add(nth).write(if at == preload.at() { text.cast() } else { at });
            }
        }
        Some(cleaned)
    }

    pub(crate) fn list(&self) -> List {
        self.pages.cast::<*const c_char>().cast_const()
    }
}

impl Drop for Cleaned {
    /// Where the start failed.
    fn drop(&mut self) {
        keeping_errno(|| {
            // SAFETY: mapped by `write`, and used no more.
            unsafe { libc::syscall(libc::SYS_munmap, self.pages, self.n_bytes) };
        });
    }
}

fn is_ours(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().starts_with(OURS)
}

/// Returns whether this process may not write into a folder.
fn is_unwritable(folder: &[u8]) -> bool {
    at_path(folder, |path| {
        // SAFETY: the path ends in nul; the error number is this thread's.
        unsafe {
            libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK | libc::X_OK, libc::AT_EACCESS) != 0
                && *libc::__errno_location() == libc::EACCES
        }
    })
}

/// Returns whether this process may not open a library, as the loader of the program will.
fn is_unreadable(library: &[u8]) -> bool {
    at_path(library, |path| with_file(path, READ, |_| ()).is_none())
}

/// Checks a path. A longer one counts as usable.
fn at_path(path: &[u8], ask: impl FnOnce(&CStr) -> bool) -> bool {
    let mut text = [0_u8; PATH_BYTES];
    let Some(room) = text.get_mut(..path.len()).filter(|room| room.len() < PATH_BYTES) else { return false };
    room.copy_from_slice(path);
    keeping_errno(|| CStr::from_bytes_until_nul(&text).is_ok_and(ask))
}
