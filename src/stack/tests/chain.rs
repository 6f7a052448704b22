//! Random chains of calls, on which every method must return what `backtrace::trace` returns.
//!
//! They consist of what is hard for unwinders: recursion, closures, inlined frames, callbacks through libc and through
//! libraries that come and go, threads, signals, code that runs while an exception passes, frames of a size that is
//! only known at run time, and frames in which the frame pointer points at something that looks like a frame.

use std::{
    cell::Cell,
    ffi::{c_int, c_void},
    hint::black_box,
    mem,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr,
    sync::{LazyLock, Once},
    thread,
    time::Duration,
};

use super::{
    super::{
        intern::{
            StackInterner,
            limits::{DEFAULT_STACKS, MAX_DEPTH},
        },
        method::StackMethod,
        unwind,
    },
    bounce::Bounce,
    frames::{FRAMES, memreel_chain_aligned, memreel_chain_sized},
};
use crate::process::testing::random::Random;
use memreel_snapshot::words::StackId;

/// memreel's own methods.
pub(super) const OWN: [StackMethod; 3] = [StackMethod::FramePointers, StackMethod::Reuse, StackMethod::Rules];

unsafe extern "C" {
    fn _Unwind_FindEnclosingFunction(address: *const c_void) -> *const c_void;
}

/// A chain of calls on its way down.
pub(super) struct Chain<'a> {
    random: Random,
    n_left: u32,
    bounces: &'a [Bounce],
    n_compared: usize,
    n_cut: usize,
    n_unfit: usize,
    n_threads: usize,
    /// Whether some frame has a rule that only the system's unwinder can follow.
    has_unfit: bool,
}

impl<'a> Chain<'a> {
    /// Creates a chain of `n_left` more calls, which may pass through `bounces`.
    pub(super) fn new(seed: u64, n_left: u32, bounces: &'a [Bounce]) -> Chain<'a> {
        let random = Random::new(seed);
        Chain { random, n_left, bounces, n_compared: 0, n_cut: 0, n_unfit: 0, n_threads: 0, has_unfit: false }
    }
}

/// One link: compares at random, then continues in one of many ways.
#[inline(never)]
fn go_on(chain: &mut Chain<'_>) -> u64 {
    if chain.n_left == 0 || chain.random.chance(6) {
        compare(chain);
    }
    if chain.n_left == 0 {
        return 1;
    }
    chain.n_left -= 1;
    let data = ptr::from_mut(chain).cast::<c_void>();
    match chain.random.below(if chain.n_threads == 0 { 141 } else { 140 }) / 10 {
        0 => go_on(chain).wrapping_mul(black_box(3)),
        1 => by_closure(chain, &mut |chain| black_box(go_on(chain)) + 1),
        2 => inlined_outer(chain) + 2,
        // SAFETY: here and below, each calls back with the data it is given,
        // before it returns, and the chain is not used here meanwhile.
        3 => after(|| unsafe { by_qsort(data) }),
        // SAFETY: as above.
        4 => after(|| unsafe { by_bsearch(data) }),
        5 => {
            let n_bytes = 8 * chain.random.below(300) as usize;
            // SAFETY: as above.
            after(|| unsafe { memreel_chain_sized(link, data, n_bytes) })
        }
        6 | 11 => {
            let frame = *chain.random.pick(&FRAMES);
            // SAFETY: as above.
            after(|| unsafe { frame(link, data) })
        }
        7 if chain.random.chance(8) => {
            chain.has_unfit = true;
            // SAFETY: as above.
            after(|| unsafe { memreel_chain_aligned(link, data) })
        }
        8 | 9 if !chain.bounces.is_empty() => {
            let bounce = *chain.random.pick(chain.bounces);
            // SAFETY: as above.
            after(|| unsafe { bounce(link, data) })
        }
        10 => large_frame(chain) + 4,
        12 => while_unwinding(chain),
        13 => in_a_handler(chain),
        14 => on_a_thread(chain),
        _ => go_on(chain).wrapping_add(black_box(7)),
    }
}

/// Continues a chain.
unsafe extern "C-unwind" fn link(data: *mut c_void) {
    // SAFETY: `go_on` made this of a chain that it does not use meanwhile.
    black_box(go_on(unsafe { &mut *data.cast() }));
}

/// Calls, and keeps the call from being a tail call.
#[inline(always)]
pub(super) fn after(call: impl FnOnce()) -> u64 {
    call();
    black_box(5)
}

#[inline(never)]
fn by_closure(chain: &mut Chain<'_>, next: &mut dyn FnMut(&mut Chain<'_>) -> u64) -> u64 {
    black_box(next)(chain) ^ 1
}

#[inline(always)]
fn inlined_outer(chain: &mut Chain<'_>) -> u64 {
    let own = black_box(chain.n_left);
    inlined_inner(chain) + u64::from(own)
}

#[inline(always)]
fn inlined_inner(chain: &mut Chain<'_>) -> u64 {
    black_box(go_on(chain)) ^ black_box(9)
}

#[inline(never)]
fn large_frame(chain: &mut Chain<'_>) -> u64 {
    let own = black_box([chain.random.next(); 700]);
    go_on(chain) ^ own[chain.random.below(700) as usize]
}

#[inline(never)]
fn on_a_thread(chain: &mut Chain<'_>) -> u64 {
    chain.n_threads += 1;
    thread::scope(|scope| scope.spawn(|| go_on(chain)).join().unwrap())
}

/// Continues from a landing pad, through which an exception leaves a frame.
#[inline(never)]
fn while_unwinding(chain: &mut Chain<'_>) -> u64 {
    struct GoesOn<'a, 'b>(&'a mut Chain<'b>);
    impl Drop for GoesOn<'_, '_> {
        fn drop(&mut self) {
            black_box(go_on(self.0));
        }
    }
    let left = catch_unwind(AssertUnwindSafe(|| {
        let _goes_on = GoesOn(chain);
        resume_unwind(Box::new(()));
    }));
    u64::from(black_box(left).is_err())
}

thread_local! {
    /// The chain that continues in a signal handler.
    static IN_HANDLER: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
}

/// The handler that continues a chain, and at which memreel's own methods end.
#[inline(never)]
extern "C" fn handler(_: c_int) {
    // SAFETY: `in_a_handler` has put a chain there, and waits.
    after(|| unsafe { link(IN_HANDLER.take()) });
}

#[inline(never)]
fn in_a_handler(chain: &mut Chain<'_>) -> u64 {
    static INSTALLED: Once = Once::new();
    // SAFETY: all its bytes are zero, which is a value; the handler runs where `raise` is called, and may be interrupted itself.
    INSTALLED.call_once(|| unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(c_int) as usize;
        action.sa_flags = libc::SA_NODEFER;
        libc::sigaction(libc::SIGUSR1, &raw const action, ptr::null_mut());
    });
    IN_HANDLER.set(ptr::from_mut(chain).cast());
    // SAFETY: as above; the chain is not used here meanwhile.
    after(|| _ = unsafe { libc::raise(libc::SIGUSR1) })
}

/// The comparison function for `qsort` and `bsearch`, whose elements point at the chain.
unsafe extern "C" fn compare_links(a: *const c_void, _: *const c_void) -> c_int {
    // SAFETY: `by_qsort` and `by_bsearch` make arrays of such pointers.
    let data = unsafe { *a.cast::<*mut c_void>() };
    // SAFETY: as in `link`.
    unsafe { link(data) };
    0
}

/// # Safety
///
/// `data` is a chain that is not used meanwhile.
#[inline(never)]
unsafe fn by_qsort(data: *mut c_void) {
    let mut links = [data; 2];
    // SAFETY: two elements of a pointer's size.
    unsafe { libc::qsort(links.as_mut_ptr().cast(), 2, size_of::<*mut c_void>(), Some(compare_links)) }
}

/// # Safety
///
/// Like [`by_qsort`].
#[inline(never)]
unsafe fn by_bsearch(data: *mut c_void) {
    let links = [data];
    let key = links.as_ptr().cast();
    // SAFETY: one element of a pointer's size, which is also the key.
    black_box(unsafe { libc::bsearch(key, key, 1, size_of::<*mut c_void>(), Some(compare_links)) });
}

/// Numbers the stacks: a walk by the rules of an unloaded library yields a new stack, and new stacks are checked.
///
/// As in every program, the walk is prepared before its first rule: it notes how many libraries were unloaded until then.
pub(super) static INTERNER: LazyLock<StackInterner> = LazyLock::new(|| {
    unwind::prepare();
    StackInterner::new(DEFAULT_STACKS)
});

/// Returns this thread's stack. A walk gives up while another thread writes to the cache of rules, and that thread may
/// wait for a processor.
pub(super) fn captured(method: StackMethod) -> Option<StackId> {
    let capture = |_| {
        let stack = unwind::capture(&INTERNER, method);
        if stack.is_none() {
            thread::sleep(Duration::from_micros(100));
        }
        stack
    };
    (0..50_000).find_map(capture)
}

/// Compares the frames outside this one, by each method and by `backtrace::trace`.
#[inline(never)]
pub(super) fn compare(chain: &mut Chain<'_>) {
    let mut traced = Vec::with_capacity(256);
    backtrace::trace(|frame| {
        traced.push(frame.ip().addr());
        true
    });
    traced.retain(|address| *address != 0);
    let own = compare as fn(&mut Chain<'_>) as usize;
    let expected = up_to_signal(outside(&traced, own));
    // In changing order, so that each method follows each.
    let turn = chain.random.below(3) as usize;
    for i in 0..OWN.len() {
        let method = OWN[(i + turn) % OWN.len()];
        // Not by `stack::capture`, which would fall back to the system's unwinder after a failed walk.
        let stack = match chain.has_unfit {
            true => unwind::capture(&INTERNER, method),
            false => captured(method),
        };
        let Some(stack) = stack else {
            assert!(chain.has_unfit, "{method:?} gave up");
            chain.n_unfit += 1;
            continue;
        };
        let words = INTERNER.addresses(stack);
        let seen = outside(&words, own);
        let is_cut = words.len() == MAX_DEPTH;
        let expected = if is_cut { &expected[..seen.len().min(expected.len())] } else { expected };
        assert_eq!(seen, expected, "{method:?}, {} links left", chain.n_left);
        chain.n_compared += 1;
        chain.n_cut += usize::from(is_cut);
    }
}

/// Returns whether a return address is in a function.
fn is_in(address: usize, function: usize) -> bool {
    // SAFETY: any address may be asked for.
    unsafe { _Unwind_FindEnclosingFunction(ptr::without_provenance(address - 1)) }.addr() == function
}

/// Returns the addresses up to and including the code through which the innermost handler returns.
fn up_to_signal(addresses: &[usize]) -> &[usize] {
    let handler = handler as extern "C" fn(c_int) as usize;
    let at = addresses.iter().position(|address| is_in(*address, handler));
    at.map_or(addresses, |at| &addresses[..addresses.len().min(at + 2)])
}

/// Returns the addresses after the first one inside the function at `own`.
pub(super) fn outside(addresses: &[usize], own: usize) -> &[usize] {
    let at = addresses
        .iter()
        .position(|address| is_in(*address, own))
        .unwrap_or_else(|| panic!("{own:x} is not in {addresses:x?}"));
    &addresses[at + 1..]
}

/// Runs random chains; returns the number of comparisons, how many of them had truncated stacks, and the number of
/// walks that gave up where they may.
pub(super) fn run(n_chains: usize, seed: u64, bounces: &[Bounce]) -> [usize; 3] {
    let mut random = Random::new(seed);
    let mut counts = [0; 3];
    for _ in 0..n_chains {
        let most = if random.chance(16) { 150 } else { 30 };
        let n_left = random.below(most) as u32;
        let mut chain = Chain::new(random.next(), n_left, bounces);
        black_box(go_on(&mut chain));
        let of_chain = [chain.n_compared, chain.n_cut, chain.n_unfit];
        counts.iter_mut().zip(of_chain).for_each(|(count, n)| *count += n);
    }
    counts
}
