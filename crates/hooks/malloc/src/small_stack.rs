//! Stacks with little room. A thread's is made larger, by what memreel needs. Where the program provides the memory, for a
//! thread or for signal handlers (`sigaltstack`), reports are made on a stack of this library; also at the end of any stack,
//! so that one that overflows does it in the program's own code. A program may jump out of the handler of that, and what a
//! report had begun would stay begun for ever.

use std::{
    cell::{Cell, UnsafeCell},
    ffi::{c_int, c_void},
    mem::MaybeUninit,
    ptr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use super::{apart::silently, next, processor::call_on};

/// The room that a report may need on the stack that it is made on.
const ROOM_BYTES: usize = 32 << 10;

/// The size from which on a stack is large.
const LARGE_BYTES: usize = 32 * ROOM_BYTES;

/// A stack ends at a multiple of this at least.
const LEAST_PAGE_BYTES: usize = 4096;

/// What [`elsewhere`] needs on the stack that has little room.
const STEP_BYTES: usize = 1 << 10;

/// The size below which a thread's stack is small.
const SMALL_BYTES: usize = 4 * ROOM_BYTES;

/// How much larger small stacks are made: room for a report, and for the thread storage of memreel's libraries, which
/// is on the stack.
const MORE_BYTES: usize = ROOM_BYTES + (16 << 10);

/// Whether a thread ever set a stack for its handlers: what a thread has for them is looked at only then. Relaxed: the thread
/// set its stack itself.
static IS_SET: AtomicBool = AtomicBool::new(false);

/// The lowest part of a stack: its start, and its size.
type Lowest = (usize, usize);

thread_local! {
    /// The lowest part of the stack that this thread's handlers run on.
    static OF_HANDLERS: Cell<Lowest> = const { Cell::new((0, 0)) };
    /// The lowest part of the thread's own stack; none before it was looked up.
    static OWN: Cell<Option<Lowest>> = const { Cell::new(None) };
}

/// The C library's function.
///
/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int {
    // SAFETY: the caller's promise.
    let status = next::sigaltstack().map_or(-1, |next| unsafe { next(new, old) });
    if status == 0 && !new.is_null() {
        // SAFETY: the caller's promise.
        let libc::stack_t { ss_sp: at, ss_flags: flags, ss_size: n_bytes } = unsafe { *new };
        let is_off = flags & libc::SS_DISABLE != 0;
        OF_HANDLERS.set(if is_off { (0, 0) } else { (at.addr(), n_bytes.min(ROOM_BYTES)) });
        IS_SET.store(true, Ordering::Relaxed);
    }
    status
}

/// The C library's function.
///
/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_attr_setstacksize(
    attributes: *mut libc::pthread_attr_t,
    n_bytes: usize,
) -> c_int {
    let Some(next) = next::pthread_attr_setstacksize() else { return libc::EINVAL };
    // SAFETY: the caller's promise, for both calls.
    unsafe {
        let status = next(attributes, n_bytes);
        if status == 0 && n_bytes < SMALL_BYTES { next(attributes, n_bytes + MORE_BYTES) } else { status }
    }
}

/// The C library's function.
///
/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_attr_setstack(
    attributes: *mut libc::pthread_attr_t,
    lowest: *mut c_void,
    n_bytes: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    next::pthread_attr_setstack().map_or(libc::EINVAL, |next| unsafe { next(attributes, lowest, n_bytes) })
}

/// Returns whether the stack that this thread is on has little room left.
#[inline]
pub(crate) fn is_here() -> bool {
    let local = 0_u8;
    let own = OWN.get().unwrap_or_else(look_up);
    let is_on = |(at, n_bytes)| (&raw const local).addr().wrapping_sub(at) < n_bytes;
    is_on(own) || IS_SET.load(Ordering::Relaxed) && is_on(OF_HANDLERS.get())
}

#[cold]
#[inline(never)]
fn look_up() -> Lowest {
    // What the look allocates is not reported, so it does not come here.
    let own = of_this_thread();
    OWN.set(Some(own));
    own
}

/// Returns the lowest part of this thread's own stack; an empty one if it has no limit.
fn of_this_thread() -> Lowest {
    if let Some((at, n_bytes)) = stack_of_thread() {
        return (at, lowest_of(n_bytes));
    }
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is written into a variable; any value may be asked for. The kernel puts the program's path at the end
    // of the first thread's stack.
    let end = unsafe {
        libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit);
        libc::getauxval(libc::AT_EXECFN) as usize
    };
    match usize::try_from(limit.rlim_cur) {
        Ok(most) if most < end => (end.next_multiple_of(LEAST_PAGE_BYTES) - most, lowest_of(most)),
        _ => (0, 0),
    }
}

/// Returns the size of the lowest part of a stack of this size: a large one has more than a report needs at the most.
fn lowest_of(n_bytes: usize) -> usize {
    if n_bytes < LARGE_BYTES { n_bytes.min(ROOM_BYTES) } else { 4 * ROOM_BYTES }
}

/// Returns the start and the size of this thread's stack; `None` for the first thread, for which the C library would
/// read a file, and if the C library does not know.
#[cold]
pub(crate) fn stack_of_thread() -> Option<(usize, usize)> {
    // SAFETY: the calls have no requirements.
    if unsafe { libc::getpid() == libc::gettid() } {
        return None;
    }
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut at, mut n_bytes) = (ptr::null_mut(), 0);
    let look = next::pthread_getattr_np()?;
    // SAFETY: the attributes are filled when the first call returns 0, and only then are they read and destroyed.
    unsafe {
        if silently(|| look(libc::pthread_self(), attributes.as_mut_ptr())) != 0 {
            return None;
        }
        libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut at, &raw mut n_bytes);
        silently(|| libc::pthread_attr_destroy(attributes.as_mut_ptr()));
    }
    Some((at.addr(), n_bytes))
}

/// A stack of this library, which takes memory when it is used.
#[repr(C, align(4096))]
struct Stack {
    bytes: UnsafeCell<[u8; STACK_BYTES]>,
    is_taken: AtomicBool,
}

const STACK_BYTES: usize = 256 << 10;

// SAFETY: the bytes belong to the thread that changed `is_taken` from false to true.
unsafe impl Sync for Stack {}

/// Several threads may report at one time.
static STACKS: [Stack; 4] =
    [const { Stack { bytes: UnsafeCell::new([0; STACK_BYTES]), is_taken: AtomicBool::new(false) } }; 4];

/// How often a thread yields before it does without a stack of this library.
const MAX_WAITS: usize = 1000;

/// Returns a stack of this library; `None` if all remain in use: in a child of `fork` they may be those of threads that it does
/// not have.
fn take() -> Option<&'static Stack> {
    let free = || STACKS.iter().find(|stack| !stack.is_taken.swap(true, Ordering::Acquire));
    (0..MAX_WAITS).find_map(|_| {
        free().or_else(|| {
            thread::yield_now();
            None
        })
    })
}

/// Runs a report on a stack of this library; `None`, and nothing is reported, if there is none.
///
/// No signal may come meanwhile: where this is a handler, the next one would begin at the top of the stack that this thread's
/// handlers run on, because the thread is not on it now, and this handler's frames are there.
#[cold]
#[inline(never)]
pub(crate) fn elsewhere<T, F: FnOnce() -> T>(report: F) -> Option<T> {
    touch();
    let stack = take()?;
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut work = Work { report: Some(report), done: None };
    // SAFETY: the sets are written before they are read; `start` gets a `Work` of its type and returns.
    unsafe {
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        call_on(stack.bytes.get().cast::<u8>().add(STACK_BYTES), start::<T, F>, (&raw mut work).cast());
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
    }
    stack.is_taken.store(false, Ordering::Release);
    work.done
}

/// Touches the next part of this stack: if it overflows, it does so now, while nothing is held.
#[inline(never)]
fn touch() {
    let mut room = MaybeUninit::<[u8; STEP_BYTES]>::uninit();
    // SAFETY: the lowest byte of the room.
    unsafe { room.as_mut_ptr().cast::<u8>().write_volatile(0) };
}

/// A report, and what it returned.
struct Work<T, F> {
    report: Option<F>,
    done: Option<T>,
}

/// # Safety
/// `work` is a `Work` of this type, which nothing else uses.
unsafe extern "C" fn start<T, F: FnOnce() -> T>(work: *mut c_void) {
    // SAFETY: the caller's promise.
    let work = unsafe { &mut *work.cast::<Work<T, F>>() };
    work.done = work.report.take().map(|report| report());
}
