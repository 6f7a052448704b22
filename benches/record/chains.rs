//! The call chains that stack captures are measured and compared on.
//!
//! Twenty functions of different frames, one calling the next: which of two
//! call sites each uses is a bit of the path, so a path is a stack.

use std::hint::black_box;

/// How many frames a chain has between its caller and its end.
pub(crate) const DEPTH: u32 = 10;

/// Calls `end` at the end of a chain of [`DEPTH`] calls; each bit of `path`,
/// the outermost lowest, decides from where a call is made.
#[inline(never)]
pub(crate) fn run(path: u32, end: &mut dyn FnMut()) -> u64 {
    link::<{ DEPTH }>(path, end)
}

/// Paths that are all the same.
pub(crate) fn same(_: u32) -> u32 {
    0
}

/// Paths that differ in the innermost four frames each time.
pub(crate) fn inner4(i: u32) -> u32 {
    (i % 16) << (DEPTH - 4)
}

/// Paths that differ near the outermost frame each time: 321 of them, in turn.
pub(crate) fn other(i: u32) -> u32 {
    // Odd, so that the lowest bits change each time, and the others with them.
    (i % 321).wrapping_mul(0x9e37_79b1) ^ (i & 1)
}

macro_rules! links {
    ($($left:literal => $next:literal),*) => {
        fn link<const LEFT: u32>(path: u32, end: &mut dyn FnMut()) -> u64 {
            match LEFT {
                $($left => frame::<$left>(path, end, link::<$next>),)*
                _ => last(end),
            }
        }
    };
}
links!(
    20 => 19, 19 => 18, 18 => 17, 17 => 16, 16 => 15, 15 => 14, 14 => 13, 13 => 12, 12 => 11, 11 => 10,
    10 => 9, 9 => 8, 8 => 7, 7 => 6, 6 => 5, 5 => 4, 4 => 3, 3 => 2, 2 => 1, 1 => 0
);

type Next = fn(u32, &mut dyn FnMut()) -> u64;

#[inline(never)]
fn last(end: &mut dyn FnMut()) -> u64 {
    end();
    black_box(1)
}

/// A frame with some words of its own, and two places to call from.
#[inline(never)]
fn frame<const LEFT: u32>(path: u32, end: &mut dyn FnMut(), next: Next) -> u64 {
    let own = black_box([u64::from(path); 3]);
    // On two lines, or the frames would have one name.
    let called = match path & 1 {
        0 => black_box(next)(path >> 1, end),
        _ => black_box(next)(path >> 1, end) ^ 1,
    };
    called.wrapping_add(own[LEFT as usize % 3])
}
