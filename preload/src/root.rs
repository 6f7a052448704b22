//! Programs that start where memreel's libraries are not, in another root or namespace of files: the loader would print a line
//! about each, so `LD_PRELOAD` has none of them there.

use std::{
    ffi::{CStr, c_char, c_void},
    mem::transmute,
    ptr,
};

use libc::{c_int, pid_t};

use super::{
    behind::{Behind, before_and_after},
    rights,
    state::is_own_process,
};

const VARIABLE: &[u8] = b"LD_PRELOAD=";
/// How memreel's libraries begin.
const OURS: &[u8] = b"libmemreel_";
/// The most bytes of a path that is looked at: a program may start another one on a small stack.
const PATH_BYTES: usize = 256;

type Words = *const *const c_char;

before_and_after! { rights::begin, has_new_root;
    chroot(root: *const c_char);
}

unsafe extern "C" {
    /// The environment of this process.
    static mut environ: Words;
}

/// What these wrap has an environment among its arguments.
static EXECVE: Behind = Behind::new(c"execve");
static EXECVPE: Behind = Behind::new(c"execvpe");
static FEXECVE: Behind = Behind::new(c"fexecve");
static POSIX_SPAWN: Behind = Behind::new(c"posix_spawn");
static POSIX_SPAWNP: Behind = Behind::new(c"posix_spawnp");

/// Finds the functions behind the wrappers while the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = find_all;

extern "C" fn find_all() {
    rights::find_all();
    let others = [&EXECVE, &EXECVPE, &FEXECVE, &POSIX_SPAWN, &POSIX_SPAWNP];
    behind::ALL.iter().copied().chain(others).for_each(|function| _ = function.address());
}

/// What the process starts by functions that have no wrapper, such as `system`, has its own environment.
fn has_new_root(status: c_int) {
    // A child of `vfork` has its parent's environment.
    if status != 0 || !is_own_process() {
        return;
    }
    // SAFETY: the C library's variable, which a program changes with one thread.
    unsafe {
        if let Some(cleaned) = Cleaned::of(environ) {
            environ = cleaned.words();
            // It is the environment from now on.
            std::mem::forget(cleaned);
        }
    }
}

/// Calls `start` with an environment, or with one like it that has none of memreel's libraries, where they are not.
///
/// # Safety
/// The environment is one of the C library.
unsafe fn in_its_root(environment: Words, start: impl FnOnce(Words) -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { Cleaned::of(environment) } {
        None => start(environment),
        Some(cleaned) => start(cleaned.words()),
    }
}

/// An environment without memreel's libraries, in pages of its own: this may be a child of `vfork`, which may not allocate.
struct Cleaned {
    pages: *mut c_void,
    n_bytes: usize,
}

impl Cleaned {
    /// Returns the same environment without memreel's libraries; `None` if it has none, or if they can be loaded here.
    ///
    /// # Safety
    /// The environment ends in null, and its words in nul.
    unsafe fn of(environment: Words) -> Option<Cleaned> {
        if environment.is_null() {
            return None;
        }
        // SAFETY: the caller's promise.
        let word = |at: usize| unsafe { environment.add(at).read() };
        let n_words = (0..).find(|at| word(*at).is_null())?;
        // SAFETY: as above.
        let bytes = |at: usize| unsafe { CStr::from_ptr(word(at)) }.to_bytes();
        let place = (0..n_words).find(|at| bytes(*at).starts_with(VARIABLE))?;
        let libraries = || {
            let all = bytes(place).get(VARIABLE.len()..).unwrap_or_default();
            all.split(|byte| matches!(byte, b':' | b' ')).filter(|path| !path.is_empty())
        };
        if !libraries().any(|path| is_ours(path) && is_missing(path)) {
            return None;
        }
        let n_bytes = (n_words + 1) * size_of::<*const c_char>() + bytes(place).len() + 1;
        // SAFETY: new pages, which nothing else has.
        let pages = unsafe {
            let (access, kind) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            libc::syscall(libc::SYS_mmap, ptr::null::<c_void>(), n_bytes, access, kind, -1, 0)
        };
        let pages = ptr::with_exposed_provenance_mut::<c_void>(usize::try_from(pages).ok()?);
        let cleaned = Cleaned { pages, n_bytes };
        let words = pages.cast::<*const c_char>();
        // SAFETY: the pages have room for all words and the null, and behind them for the text, which is not longer than it was.
        unsafe {
            let text = words.add(n_words + 1).cast::<u8>();
            let mut n_written = 0;
            let mut write = |part: &[u8]| {
                ptr::copy(part.as_ptr(), text.add(n_written), part.len());
                n_written += part.len();
            };
            write(VARIABLE);
            let mut others = libraries().filter(|path| !is_ours(path)).peekable();
            let has_others = others.peek().is_some();
            others.enumerate().for_each(|(nth, path)| {
                write(if nth == 0 { b"" } else { b":" });
                write(path);
            });
            let mut n_words_kept = 0;
            for at in 0..n_words {
                let is_it = at == place;
                if !is_it || has_others {
                    words.add(n_words_kept).write(if is_it { text.cast() } else { word(at) });
                    n_words_kept += 1;
                }
            }
        }
        Some(cleaned)
    }

    fn words(&self) -> Words {
        self.pages.cast::<*const c_char>().cast_const()
    }
}

impl Drop for Cleaned {
    /// Where the start failed.
    fn drop(&mut self) {
        keeping_errno(|| {
            // SAFETY: mapped by `of`, and used no more.
            unsafe { libc::syscall(libc::SYS_munmap, self.pages, self.n_bytes) };
        });
    }
}

fn is_ours(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().starts_with(OURS)
}

/// Returns whether a file cannot be read here. One with a longer path is taken for there.
fn is_missing(path: &[u8]) -> bool {
    let mut text = [0_u8; PATH_BYTES];
    let Some(room) = text.get_mut(..path.len()).filter(|room| room.len() < PATH_BYTES) else { return false };
    room.copy_from_slice(path);
    // SAFETY: the path ends in nul.
    keeping_errno(|| unsafe { libc::access(text.as_ptr().cast(), libc::R_OK) } != 0)
}

fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the C library's error number of this thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let done = work();
    // SAFETY: as above.
    unsafe { *errno = before };
    done
}

/// Calls the function behind a wrapper, within an unsafe block: the name fixes the type, and the arguments are the caller's. -1
/// with an error if there is none.
macro_rules! next {
    ($behind:ident, fn($($type:ty),*), $($argument:expr),*) => {{
        type Function = unsafe extern "C" fn($($type),*) -> c_int;
        transmute::<*mut c_void, Option<Function>>($behind.address()).map_or(-1, |next| next($($argument),*))
    }};
}

/// The C library's function.
///
/// # Safety
/// As in the C library, for this function and all below.
#[unsafe(no_mangle)]
unsafe extern "C" fn execve(path: *const c_char, words: Words, environment: Words) -> c_int {
    // SAFETY: the caller's promise, here and below.
    unsafe {
        in_its_root(environment, |environment| {
            next!(EXECVE, fn(*const c_char, Words, Words), path, words, environment)
        })
    }
}

/// The same with this process's environment.
#[unsafe(no_mangle)]
unsafe extern "C" fn execv(path: *const c_char, words: Words) -> c_int {
    // SAFETY: as above.
    unsafe { execve(path, words, environ) }
}

/// The C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn execvpe(file: *const c_char, words: Words, environment: Words) -> c_int {
    // SAFETY: as above.
    unsafe {
        in_its_root(environment, |environment| {
            next!(EXECVPE, fn(*const c_char, Words, Words), file, words, environment)
        })
    }
}

/// The same with this process's environment.
#[unsafe(no_mangle)]
unsafe extern "C" fn execvp(file: *const c_char, words: Words) -> c_int {
    // SAFETY: as above.
    unsafe { execvpe(file, words, environ) }
}

/// The C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn fexecve(file: c_int, words: Words, environment: Words) -> c_int {
    // SAFETY: as above.
    unsafe {
        in_its_root(environment, |environment| {
            next!(FEXECVE, fn(c_int, Words, Words), file, words, environment)
        })
    }
}

/// What `posix_spawn` does in the child, and with which attributes.
type Actions = *const c_void;

/// The C library's function. It returns the number of an error.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn(
    process: *mut pid_t,
    path: *const c_char,
    actions: Actions,
    attributes: Actions,
    words: Words,
    environment: Words,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        in_its_root(environment, |environment| {
            type Type = *const c_char;
            next!(
                POSIX_SPAWN,
                fn(*mut pid_t, Type, Actions, Actions, Words, Words),
                process,
                path,
                actions,
                attributes,
                words,
                environment
            )
        })
    }
}

/// The C library's function. It returns the number of an error.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawnp(
    process: *mut pid_t,
    file: *const c_char,
    actions: Actions,
    attributes: Actions,
    words: Words,
    environment: Words,
) -> c_int {
    // SAFETY: as above.
    unsafe {
        in_its_root(environment, |environment| {
            type Type = *const c_char;
            next!(
                POSIX_SPAWNP,
                fn(*mut pid_t, Type, Actions, Actions, Words, Words),
                process,
                file,
                actions,
                attributes,
                words,
                environment
            )
        })
    }
}
