//! Handles tape files that another program makes shorter while they are mapped. Touching memory after the end of a file
//! raises SIGBUS, which would end this process: a handler maps its own memory there, and the tape is no longer written.
#![cfg_attr(miri, allow(dead_code, reason = "Miri has no signals"))]

use std::{
    ffi::{c_int, c_void},
    mem,
    ptr::{self, NonNull},
    sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// The most mappings that are guarded; beyond that, a truncated file ends the process.
const MOST: usize = 4096;

/// A mapping of a tape's file. The entry is free if it ends at 0.
struct Mapping {
    /// Whether a thread has taken the entry.
    is_taken: AtomicBool,
    begin: AtomicUsize,
    end: AtomicUsize,
    /// The address of the tape's header, which identifies mappings of the same tape.
    tape: AtomicUsize,
    is_cut: AtomicBool,
}

static MAPPINGS: [Mapping; MOST] = [const {
    Mapping {
        is_taken: AtomicBool::new(false),
        begin: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        tape: AtomicUsize::new(0),
        is_cut: AtomicBool::new(false),
    }
}; MOST];

/// How often a file was found to be truncated.
static N_CUT: AtomicUsize = AtomicUsize::new(0);

/// The program's previous action for the signal. Never freed: a handler may be reading it at any time.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());

/// Guards a mapping of whole pages of a tape, whose header is at an address.
pub(super) fn guard(page: *mut u8, n_bytes: usize, tape: usize) {
    static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
    // Relaxed, also below: the order of these words is that of `end`, which is stored last and cleared first.
    if !IS_INSTALLED.swap(true, Ordering::Relaxed) {
        install();
    }
    let free = MAPPINGS.iter().find(|mapping| {
        !mapping.is_taken.load(Ordering::Relaxed) && !mapping.is_taken.swap(true, Ordering::Acquire)
    });
    if let Some(free) = free {
        free.begin.store(page.addr(), Ordering::Relaxed);
        free.tape.store(tape, Ordering::Relaxed);
        free.is_cut.store(false, Ordering::Relaxed);
        free.end.store(page.addr() + n_bytes, Ordering::Release);
    }
}

/// Returns the tape whose mapping contains an address.
pub(super) fn tape_of(at: usize) -> Option<usize> {
    // Relaxed: as in `guard`.
    of(at).map(|mapping| mapping.tape.load(Ordering::Relaxed))
}

/// Forgets a mapping before it is unmapped.
pub(super) fn forget(page: *mut u8) {
    if let Some(mapping) = of(page.addr()) {
        mapping.end.store(0, Ordering::Release);
        mapping.is_taken.store(false, Ordering::Release);
    }
}

/// Returns whether memory of the tape with this header was touched after the end of its file.
pub(super) fn is_cut(header: NonNull<u8>) -> bool {
    // Relaxed: a tape that was cut a moment ago is still written, in memory of this process.
    N_CUT.load(Ordering::Relaxed) > 0
        && MAPPINGS.iter().any(|mapping| {
            mapping.end.load(Ordering::Acquire) != 0
                && mapping.tape.load(Ordering::Relaxed) == header.addr().get()
                && mapping.is_cut.load(Ordering::Relaxed)
        })
}

fn of(at: usize) -> Option<&'static Mapping> {
    MAPPINGS.iter().find(|mapping| {
        let end = mapping.end.load(Ordering::Acquire);
        // Relaxed: as in `guard`.
        at < end && mapping.begin.load(Ordering::Relaxed) <= at
    })
}

/// Installs the handler for the life of the process. If the system refuses, a truncated file ends the process.
#[cfg(not(miri))]
fn install() {
    // SAFETY: zeros are a valid action.
    let mut present: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: with a null action the call only reads the present one.
    if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut present) } != 0 {
        return;
    }
    // Programs started by this one ignore the signal too, and would not if there were a handler.
    if present.sa_sigaction == libc::SIG_IGN {
        return;
    }
    let mut own = present;
    own.sa_sigaction =
        handler as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as libc::sighandler_t;
    own.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // Before the handler can run.
    BEFORE.store(Box::into_raw(Box::new(present)), Ordering::Release);
    // SAFETY: the handler only does what is allowed in a handler.
    let _ = unsafe { libc::sigaction(libc::SIGBUS, &raw const own, ptr::null_mut()) };
}

#[cfg(miri)]
fn install() {}

/// Maps memory where a tape's file has none any more; passes on anything else.
extern "C" fn handler(number: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // The kernel's code for an address after the end of a file.
    const BUS_ADRERR: c_int = 2;
    // SAFETY: the kernel passes it to a handler with SA_SIGINFO.
    let (code, at) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    let is_mended = code == BUS_ADRERR && of(at).is_some_and(|mapping| mend(mapping, at));
    if !is_mended {
        pass_on(number, info, context);
    }
}

/// Maps a page of zeros over the page of an address.
fn mend(mapping: &Mapping, at: usize) -> bool {
    let page_bytes = rustix::param::page_size();
    let page = ptr::with_exposed_provenance_mut(at - at % page_bytes);
    let flags = MapFlags::PRIVATE | MapFlags::FIXED;
    // SAFETY: the page is of a tape's mapping, and its file has it no more, so nothing is lost. The call neither allocates
    // nor sets `errno`.
    let mapped = unsafe { mmap_anonymous(page, page_bytes, ProtFlags::READ | ProtFlags::WRITE, flags) };
    // Relaxed: each is read alone.
    mapping.is_cut.store(true, Ordering::Relaxed);
    N_CUT.fetch_add(1, Ordering::Relaxed);
    mapped.is_ok()
}

/// Does what the program would have done at the signal.
fn pass_on(number: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: stored before the handler was installed, and never freed.
    let before = unsafe { BEFORE.load(Ordering::Acquire).as_ref() };
    match before {
        Some(before) if ![libc::SIG_DFL, libc::SIG_IGN].contains(&before.sa_sigaction) => {
            if before.sa_flags & libc::SA_SIGINFO != 0 {
                // SAFETY: a handler with this flag has this type.
                let handle: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    unsafe { mem::transmute(before.sa_sigaction) };
                handle(number, info, context);
            } else {
                // SAFETY: a handler without the flag has this type.
                let handle: extern "C" fn(c_int) = unsafe { mem::transmute(before.sa_sigaction) };
                handle(number);
            }
        }
        _ => {
            // SAFETY: the kernel passes it to a handler with SA_SIGINFO.
            let is_sent = unsafe { (*info).si_code } <= 0;
            let is_ignored = before.is_some_and(|before| before.sa_sigaction == libc::SIG_IGN);
            if !(is_sent && is_ignored) {
                // SAFETY: from here on the signal ends the process, as it would have.
                unsafe { libc::signal(number, libc::SIG_DFL) };
            }
            if is_sent && !is_ignored {
                // SAFETY: the signal waits until the handler returns. A fault needs none: the instruction is executed again.
                unsafe { libc::raise(number) };
            }
        }
    }
}
