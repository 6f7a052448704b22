//! This machine's own walk: rules cached for all threads, frames kept for each.
//!
//! In steady state it calls nothing outside of this crate: no allocator, no
//! lock, no loader. `portable.rs` stands in its place on other machines.

mod bounds;
mod cache;
mod cfi;
mod last;
mod learn;
mod loader;
mod rule;
mod walk;

use std::{
    cell::{Cell, UnsafeCell},
    mem::MaybeUninit,
    ops::Range,
    sync::atomic::{Ordering, compiler_fence},
};

use super::{capture::MAX_DEPTH, interner::StackInterner, method::StackMethod};
use crate::event::StackId;
use last::{Join, Last};
use learn::Verdict;
use rule::Rule;
use walk::{End, Registers, walk};

/// Looks up what captures need, and says which method suits this build; none
/// if this program's own code cannot be walked.
///
/// std has frame pointers and glibc has none, whatever the build; what counts
/// is the code that calls us, which is compiled as we are: this very function
/// is the sample.
#[inline(never)]
pub(super) fn prepare() -> Option<StackMethod> {
    loader::prepare();
    match learn::learn(Registers::here().ip)? {
        Rule::FRAME_POINTER => Some(StackMethod::FramePointers),
        rule if rule.is_frame() => Some(StackMethod::Reuse),
        _ => None,
    }
}

/// Captures this thread's stack and numbers it. None where only the portable walk can.
///
/// The first address is the caller's.
#[inline(never)]
pub(super) fn capture(table: &StackInterner, method: StackMethod) -> Option<StackId> {
    let start = Registers::here();
    with_last(start, method, |last, walk_again| {
        let has_source = table.has_source();
        if !has_source && let Some(stack) = last.stack_in(table.number()) {
            return Some(stack);
        }
        let known = table.find_native(last.words(), last.hash());
        let stack = known.or_else(|| number_new(table, last, walk_again))?;
        // The number of a full table is asked for each time, because each time counts.
        if !has_source && table.is_kept(stack) {
            last.set_stack(table.number(), stack);
        }
        Some(stack)
    })
}

/// Numbers a stack that was never met.
///
/// A walk that went astray by the rules of a library that is gone looks new,
/// and what is new goes to the loader in any case: so its files are looked at
/// once more.
#[cold]
#[inline(never)]
fn number_new(table: &StackInterner, last: &mut Last, walk_again: WalkAgain<'_>) -> Option<StackId> {
    match learn::recheck(last.words()) {
        Verdict::Sound => {}
        Verdict::Unsettled => return None,
        Verdict::Forgotten => {
            if !walk_again(last) {
                return None;
            }
        }
    }
    Some(table.intern_native(last.words(), last.hash()))
}

#[cfg(test)]
/// Captures this thread's stack, innermost first. None where only the portable walk can.
#[inline(never)]
pub(super) fn capture_addresses(words: &mut [usize; MAX_DEPTH], method: StackMethod) -> Option<usize> {
    let start = Registers::here();
    with_last(start, method, |last, _| {
        let captured = last.words();
        for (word, from) in words.iter_mut().zip(captured.iter().rev()) {
            *word = *from;
        }
        Some(captured.len())
    })
}

/// What a thread remembers from one capture to the next.
///
/// Nothing here needs dropping, so the thread's storage has no destructor and
/// can be used to the thread's very end.
struct Thread {
    is_busy: Cell<bool>,
    stack: UnsafeCell<Range<usize>>,
    ends: Ends,
    last: UnsafeCell<Last>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            is_busy: Cell::new(false),
            stack: UnsafeCell::new(0..0),
            ends: Ends::new(),
            last: UnsafeCell::new(Last::new()),
        }
    };
}

/// Walks a stack again, all the way, by rules that were looked at; whether it could.
type WalkAgain<'a> = &'a dyn Fn(&mut Last) -> bool;

/// Brings the thread's last capture up to date and shows it.
#[inline(always)]
fn with_last<T>(
    start: Registers,
    method: StackMethod,
    show: impl FnOnce(&mut Last, WalkAgain<'_>) -> Option<T>,
) -> Option<T> {
    THREAD.with(|thread| {
        // A signal may have come in the middle of a capture, and capture too.
        if thread.is_busy.replace(true) {
            return None;
        }
        // The handler runs on this thread: the processor keeps the order, the compiler has to be told.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: `is_busy` was false, so no other reference into this cell is
        // alive, and it is true until these two are gone: nothing below
        // hands them out, and a panic in `show` leaves it true for ever.
        let (stack, last) = unsafe { (&mut *thread.stack.get(), &mut *thread.last.get()) };
        let is_made = update(stack, &thread.ends, last, start, method);
        let shown = if is_made {
            let live = start.sp..stack.end;
            show(last, &|last| walk_anew::<false>(last, start, &live) != End::Unfit)
        } else {
            None
        };
        compiler_fence(Ordering::SeqCst);
        thread.is_busy.set(false);
        shown
    })
}

/// Whether the last capture now is the stack at `start`.
#[inline(always)]
fn update(
    stack: &mut Range<usize>,
    ends: &Ends,
    last: &mut Last,
    start: Registers,
    method: StackMethod,
) -> bool {
    if !stack.contains(&start.sp) && !learn_bounds(stack, start.sp) {
        return false;
    }
    let live = start.sp..stack.end;
    let end = match method {
        StackMethod::Rules => walk_anew::<false>(last, start, &live),
        StackMethod::FramePointers => walk_on::<true>(last, start, &live),
        _ => walk_on::<false>(last, start, &live),
    };
    match end {
        End::Joined(_) => true,
        End::Outermost(sp) if ends.is_latest(sp) => true,
        _ => ended_elsewhere(ends, last, start, &live, end),
    }
}

/// The bounds of the thread's stack, asked once; again if the stack pointer is
/// outside, as it is in a coroutine or on a signal's own stack.
#[cold]
fn learn_bounds(stack: &mut Range<usize>, sp: usize) -> bool {
    if stack.end == 0 {
        *stack = bounds::stack_of_this_thread();
        stack.end &= !7;
        if stack.end == 0 {
            // The system does not tell, and is not asked again.
            *stack = 8..8;
        }
    }
    stack.contains(&sp)
}

/// Walks until the last capture is met.
#[inline(always)]
fn walk_on<const POINTERS_FIRST: bool>(last: &mut Last, start: Registers, live: &Range<usize>) -> End {
    let epoch = cache::epoch();
    let mut steps = [MaybeUninit::uninit(); MAX_DEPTH];
    let (n, end) = walk::<POINTERS_FIRST>(start, live.end, &mut steps, last.join(epoch, live));
    // Forgotten on the way: the steps before may have been by stale rules.
    if cache::epoch() != epoch {
        return walk_anew::<POINTERS_FIRST>(last, start, live);
    }
    match end {
        End::Joined(frame) if frame + n > MAX_DEPTH => return walk_anew::<POINTERS_FIRST>(last, start, live),
        // The frame that was met is left by the new walk's step.
        End::Joined(frame) => last.replace(frame, &steps[..n], epoch, true),
        End::Unfit => last.clear(),
        end => last.replace(0, &steps[..n], epoch, end != End::Full),
    }
    end
}

/// Walks all the way.
#[inline(never)]
fn walk_anew<const POINTERS_FIRST: bool>(last: &mut Last, start: Registers, live: &Range<usize>) -> End {
    let mut steps = [MaybeUninit::uninit(); MAX_DEPTH];
    let mut epoch = cache::epoch();
    let (mut n, mut end) = walk::<POINTERS_FIRST>(start, live.end, &mut steps, Join::never(last));
    // Forgotten on the way: the steps before may have been by stale rules.
    if cache::epoch() != epoch {
        epoch = cache::epoch();
        (n, end) = walk::<POINTERS_FIRST>(start, live.end, &mut steps, Join::never(last));
    }
    match end {
        End::Unfit => last.clear(),
        end => last.replace(0, &steps[..n], epoch, end != End::Full),
    }
    end
}

/// Whether a walk that did not end where this thread's walks end can be believed.
#[cold]
#[inline(never)]
fn ended_elsewhere(ends: &Ends, last: &mut Last, start: Registers, live: &Range<usize>, end: End) -> bool {
    // Only an end is a mark: the system's unwinder sees where the others go on.
    let mark = match end {
        End::Unfit => return false,
        End::Full | End::Signal | End::Joined(_) => return true,
        End::Outermost(sp) => sp,
        End::Lost => last.words().first().map_or(0, |word| !word),
    };
    if !ends.has(mark) {
        match learn::recheck(last.words()) {
            Verdict::Sound => ends.add(mark),
            Verdict::Unsettled => return false,
            // Whatever end is found now is met again, and looked at then.
            Verdict::Forgotten => return walk_anew::<false>(last, start, live) != End::Unfit,
        }
    }
    !last.words().is_empty()
}

/// Where this thread's walks ended: the stack pointer in the outermost frame,
/// or the complement of the address at which the way was lost.
///
/// A few, because a thread may run coroutines.
struct Ends([Cell<usize>; 4]);

impl Ends {
    const fn new() -> Ends {
        Ends([const { Cell::new(0) }; 4])
    }

    #[inline(always)]
    fn is_latest(&self, mark: usize) -> bool {
        self.0[0].get() == mark
    }

    fn has(&self, mark: usize) -> bool {
        self.0.iter().any(|end| end.get() == mark)
    }

    /// Makes this the latest, and forgets the oldest.
    fn add(&self, mark: usize) {
        for i in (1..self.0.len()).rev() {
            self.0[i].set(self.0[i - 1].get());
        }
        self.0[0].set(mark);
    }
}
