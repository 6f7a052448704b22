//! The handler of signals that request a snapshot.

use std::{
    ffi::{c_int, c_void},
    io,
    mem::MaybeUninit,
    ptr,
    sync::atomic::{AtomicBool, AtomicPtr, Ordering},
};

use crate::trigger::{
    signal_number::{N_SIGNALS, Signal},
    thread::requests,
};

/// The program's action for a signal before memreel's handler was installed.
struct Before {
    is_installed: AtomicBool,
    /// Never freed: a handler may be reading it at any time.
    action: AtomicPtr<libc::sigaction>,
}

/// By the number of the signal.
static BEFORE: [Before; N_SIGNALS] =
    [const { Before { is_installed: AtomicBool::new(false), action: AtomicPtr::new(ptr::null_mut()) } };
        N_SIGNALS];

fn before(number: c_int) -> Option<&'static Before> {
    BEFORE.get(usize::try_from(number).ok()?)
}

/// Installs the handler of a signal for the life of the process.
///
/// # Errors
/// The system's error.
pub(in crate::trigger) fn install(signal: Signal) -> io::Result<()> {
    let number = signal.number();
    let Some(before) = before(number) else { return Ok(()) };
    if before.is_installed.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    let installed = install_handler(number, before);
    if installed.is_err() {
        before.is_installed.store(false, Ordering::Release);
    }
    installed
}

fn install_handler(number: c_int, before: &Before) -> io::Result<()> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: with a null action the call only reads the present one.
    if unsafe { libc::sigaction(number, ptr::null(), action.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has written it.
    let present = unsafe { action.assume_init() };
    let mut own = present;
    own.sa_sigaction =
        handler as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as libc::sighandler_t;
    // A handler that was there keeps the conditions that it was installed with: its mask, its stack and whether system
    // calls are interrupted. Without one, system calls continue.
    let kept = libc::SA_RESTART | libc::SA_NODEFER | libc::SA_ONSTACK;
    own.sa_flags = libc::SA_SIGINFO
        | if is_function(&present) { present.sa_flags & kept } else { kept & !libc::SA_NODEFER };
    // Before the handler can run.
    before.action.store(Box::into_raw(Box::new(present)), Ordering::Release);
    // SAFETY: the handler only does what is allowed in a handler.
    if unsafe { libc::sigaction(number, &raw const own, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn is_function(action: &libc::sigaction) -> bool {
    action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN
}

/// Wakes the thread that writes snapshots, and calls the previous handler.
extern "C" fn handler(number: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the location is this thread's own. What was interrupted may be about to read it.
    let errno = unsafe { *libc::__errno_location() };
    if let Some(request) = requests::of_signal(number) {
        request.ask();
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    let action = before(number).map_or(ptr::null_mut(), |before| before.action.load(Ordering::Acquire));
    // SAFETY: null, or a box that is never freed (`install_handler`).
    if let Some(action) = unsafe { action.as_ref() }.filter(|action| is_function(action)) {
        // SAFETY: the program installed this function as a handler of this kind, and gets what the system passed.
        unsafe { call(action, number, info, context) };
    }
}

/// Calls a handler of the program.
///
/// # Safety
/// The action has a function, and the arguments are those of a signal that it was installed for.
unsafe fn call(action: &libc::sigaction, number: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    if action.sa_flags & libc::SA_SIGINFO == 0 {
        // SAFETY: without the flag, the function takes the number only.
        let function: extern "C" fn(c_int) = unsafe { std::mem::transmute(action.sa_sigaction) };
        function(number);
    } else {
        // SAFETY: with the flag, the function takes these three.
        let function: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
            unsafe { std::mem::transmute(action.sa_sigaction) };
        function(number, info, context);
    }
}
