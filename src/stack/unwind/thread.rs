//! Keeps a thread's last capture, and updates it by a walk.

use std::{
    cell::{Cell, UnsafeCell},
    mem::MaybeUninit,
    ops::Range,
    sync::atomic::{Ordering, compiler_fence},
};

use super::{
    super::{intern::limits::MAX_DEPTH, method::StackMethod},
    bounds, cache,
    ends::Ends,
    join::Join,
    last::Last,
    learn::{self, Verdict},
    step::Registers,
    walk::{End, walk},
};

/// A thread's state from one capture to the next.
///
/// Nothing here needs dropping, so the thread's storage has no destructor and can be used until the thread has ended.
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

/// Walks the whole stack again, by rules that were checked; returns whether it could.
pub(super) type WalkAgain<'a> = &'a dyn Fn(&mut Last) -> bool;

/// Updates the thread's last capture to the stack at `start`, then calls `show` with it.
///
/// Returns none, without calling `show`, if only the portable walk can capture.
#[inline(always)]
pub(super) fn with_last<T>(
    start: Registers,
    method: StackMethod,
    show: impl FnOnce(&mut Last, WalkAgain<'_>) -> Option<T>,
) -> Option<T> {
    THREAD.with(|thread| {
        // A signal handler that interrupted a capture may capture too.
        if thread.is_busy.replace(true) {
            return None;
        }
        let _busy = Busy(&thread.is_busy);
        // The handler runs on this thread: the processor keeps the order, and the fence makes the compiler keep it.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: `is_busy` was false, so no other reference into these cells is
        // alive, and it is true until these two are gone: nothing below
        // hands them out, and `_busy` is dropped after them, also by a panic in `show`.
        let (stack, last) = unsafe { (&mut *thread.stack.get(), &mut *thread.last.get()) };
        let is_made = update(stack, &thread.ends, last, start, method);
        if is_made {
            let live = start.sp..stack.end;
            show(last, &|last| walk_anew::<false>(last, start, &live) != End::Unfit)
        } else {
            None
        }
    })
}

/// Marks the end of a capture when it is dropped.
struct Busy<'a>(&'a Cell<bool>);

impl Drop for Busy<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.0.set(false);
    }
}

/// Makes `last` the stack at `start`; returns whether it could.
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

/// Fills in the bounds of the thread's stack once; returns whether the stack pointer is inside.
///
/// It is outside in a coroutine and on a separate signal stack.
#[cold]
fn learn_bounds(stack: &mut Range<usize>, sp: usize) -> bool {
    if stack.end == 0 {
        *stack = bounds::stack_of_this_thread();
        bounds::note(stack);
        stack.end &= !7;
        if stack.end == 0 {
            // The system does not know the bounds, and is not queried again.
            *stack = 8..8;
        }
    }
    stack.contains(&sp)
}

/// Walks until it joins the last capture.
#[inline(always)]
fn walk_on<const POINTERS_FIRST: bool>(last: &mut Last, start: Registers, live: &Range<usize>) -> End {
    let epoch = cache::epoch();
    let mut steps = [MaybeUninit::uninit(); MAX_DEPTH];
    let (n, end) = walk::<POINTERS_FIRST>(start, live.end, &mut steps, Join::new(last, epoch, live));
    // Rules were forgotten during the walk: earlier steps may have used stale ones.
    if cache::epoch() != epoch {
        return walk_anew::<POINTERS_FIRST>(last, start, live);
    }
    match end {
        End::Joined(frame) if frame + n > MAX_DEPTH => return walk_anew::<POINTERS_FIRST>(last, start, live),
        // The new walk's step leaves the frame at which the walks met.
        End::Joined(frame) => last.replace(frame, &steps[..n], epoch, true),
        End::Unfit => last.clear(),
        end => last.replace(0, &steps[..n], epoch, end != End::Full),
    }
    end
}

/// Walks the whole stack.
#[inline(never)]
fn walk_anew<const POINTERS_FIRST: bool>(last: &mut Last, start: Registers, live: &Range<usize>) -> End {
    let mut steps = [MaybeUninit::uninit(); MAX_DEPTH];
    let mut epoch = cache::epoch();
    let (mut n, mut end) = walk::<POINTERS_FIRST>(start, live.end, &mut steps, Join::never(last));
    // Rules were forgotten during the walk: earlier steps may have used stale ones.
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

/// Returns whether to trust a walk that did not end at the latest end of this thread's walks.
#[cold]
#[inline(never)]
fn ended_elsewhere(ends: &Ends, last: &mut Last, start: Registers, live: &Range<usize>, end: End) -> bool {
    // Only an end is a mark.
    let mark = match end {
        End::Unfit => return false,
        End::Full | End::Signal | End::Joined(_) => return true,
        End::Outermost(sp) => sp,
        End::Lost => last.words().first().map_or(0, |word| !word),
    };
    if !ends.has(mark) {
        match learn::recheck(last.words(), last.epoch) {
            Verdict::Sound => ends.add(mark),
            Verdict::Unsettled => return false,
            // The next walk reaches this end again, and it is checked then.
            Verdict::Forgotten => return walk_anew::<false>(last, start, live) != End::Unfit,
        }
    }
    !last.words().is_empty()
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::{super::processor, *};

    #[test]
    fn a_panic_ends_its_capture_and_not_those_after_it() {
        // While another thread writes to the rule cache, a walk may give up.
        let capture = |show: fn()| {
            let once = |_| {
                let n = with_last(processor::here(), StackMethod::Rules, |last, _| {
                    show();
                    Some(last.words().len())
                });
                if n.is_none() {
                    std::thread::sleep(std::time::Duration::from_micros(100));
                }
                n
            };
            (0..50_000).find_map(once)
        };
        super::super::prepare();
        assert!(catch_unwind(AssertUnwindSafe(|| capture(|| panic!("in a frame source")))).is_err());
        assert!(capture(|| {}).is_some_and(|n| n > 3), "the thread's state is free again");
    }
}
