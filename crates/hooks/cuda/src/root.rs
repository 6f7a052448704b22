//! Programs that start where they cannot be recorded, in another root or file namespace or without the right to write a
//! tape: memreel is removed from their environment (`cleaned.rs`).

use std::{
    ffi::{c_char, c_void},
    mem::transmute,
};

use libc::{c_int, pid_t};

use super::{
    behind::{Behind, before_and_after},
    cleaned::{Cleaned, List, clean, own},
    rights,
    state::is_own_process,
    told::{self, Program, Told},
};

type Words = List;

before_and_after! { rights::begin, has_new_root;
    chroot(root: *const c_char);
}

/// These functions have an environment among their arguments.
static EXECVE: Behind = Behind::new(c"execve");
static EXECVEAT: Behind = Behind::new(c"execveat");
static EXECVPE: Behind = Behind::new(c"execvpe");
static FEXECVE: Behind = Behind::new(c"fexecve");
static POSIX_SPAWN: Behind = Behind::new(c"posix_spawn");
static POSIX_SPAWNP: Behind = Behind::new(c"posix_spawnp");

/// Finds the wrapped functions while the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = find_all;

extern "C" fn find_all() {
    told::keep_folder();
    rights::find_all();
    let others = [&EXECVE, &EXECVEAT, &EXECVPE, &FEXECVE, &POSIX_SPAWN, &POSIX_SPAWNP];
    behind::ALL.iter().copied().chain(others).for_each(|function| _ = function.address());
}

/// What the process starts by functions that have no wrapper, such as `system`, has its own environment.
fn has_new_root(status: c_int) {
    // A child of `vfork` has its parent's environment.
    if status == 0 && is_own_process() {
        // SAFETY: a program changes its root with one thread.
        unsafe { clean() };
    }
}

/// Calls `start` with an environment, or with a similar one without memreel if memreel is useless there.
fn in_its_root(environment: List, start: impl FnOnce(List) -> c_int) -> c_int {
    match Cleaned::of(environment) {
        None => start(environment),
        Some(cleaned) => start(cleaned.list()),
    }
}

/// Calls `run` as [`in_its_root`], which returns only if it fails, and reports the program if it will be unrecorded.
///
/// # Safety
/// The conditions of [`Told::of`].
unsafe fn running(
    program: Program,
    words: Words,
    environment: List,
    run: impl FnOnce(List) -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let told = unsafe { Told::of(program, words, environment) };
    told.iter().for_each(Told::tell);
    let status = in_its_root(environment, run);
    told.iter().for_each(Told::take_back);
    status
}

/// Calls `start` as [`in_its_root`], which returns 0 if it has started a process, and reports the program if it is unrecorded.
///
/// # Safety
/// The conditions of [`Told::of`]; `process` is null, or points to the PID.
unsafe fn starting(
    program: Program,
    words: Words,
    environment: List,
    process: *const pid_t,
    start: impl FnOnce(List) -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let told = unsafe { Told::of(program, words, environment) };
    let status = in_its_root(environment, start);
    if let Some(told) = told.filter(|_| status == 0) {
        // SAFETY: the caller's promise.
        told.tell_of(unsafe { process.as_ref() }.copied().unwrap_or(0));
    }
    status
}

/// Calls the function that a wrapper wraps, within an unsafe block: the name fixes the type, and the arguments are the
/// caller's. -1 with an error if there is none.
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
        running(Program::Path(path), words, environment, |environment| {
            next!(EXECVE, fn(*const c_char, Words, Words), path, words, environment)
        })
    }
}

/// The same with this process's environment.
#[unsafe(no_mangle)]
unsafe extern "C" fn execv(path: *const c_char, words: Words) -> c_int {
    // SAFETY: as above.
    unsafe { execve(path, words, own()) }
}

/// The C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn execvpe(file: *const c_char, words: Words, environment: Words) -> c_int {
    // SAFETY: as above.
    unsafe {
        running(Program::File(file), words, environment, |environment| {
            next!(EXECVPE, fn(*const c_char, Words, Words), file, words, environment)
        })
    }
}

/// The same with this process's environment.
#[unsafe(no_mangle)]
unsafe extern "C" fn execvp(file: *const c_char, words: Words) -> c_int {
    // SAFETY: as above.
    unsafe { execvpe(file, words, own()) }
}

/// The C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn fexecve(file: c_int, words: Words, environment: Words) -> c_int {
    // SAFETY: as above.
    unsafe {
        running(Program::Open, words, environment, |environment| {
            next!(FEXECVE, fn(c_int, Words, Words), file, words, environment)
        })
    }
}

/// The C library's function, or the system's where the C library has none.
#[unsafe(no_mangle)]
unsafe extern "C" fn execveat(
    folder: c_int,
    path: *const c_char,
    words: Words,
    environment: Words,
    flags: c_int,
) -> c_int {
    let program = if folder == libc::AT_FDCWD { Program::Path(path) } else { Program::Open };
    // SAFETY: as above.
    unsafe {
        running(program, words, environment, |environment| match EXECVEAT.address().is_null() {
            true => libc::syscall(libc::SYS_execveat, folder, path, words, environment, flags) as c_int,
            false => {
                type Path = *const c_char;
                next!(EXECVEAT, fn(c_int, Path, Words, Words, c_int), folder, path, words, environment, flags)
            }
        })
    }
}

/// What `posix_spawn` does in the child, and its attributes.
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
        starting(Program::Path(path), words, environment, process, |environment| {
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
        starting(Program::File(file), words, environment, process, |environment| {
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
