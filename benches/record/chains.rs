//! The call chains whose stacks are captured.
//!
//! Functions with different frames call one another. Each has two call sites,
//! and a bit of the path selects one, so every path is another stack.

use std::hint::black_box;

/// The number of links of a chain; a link is two frames.
pub(crate) const DEPTH: u32 = 10;

/// Calls `end` at the end of a chain of [`DEPTH`] links. Each bit of `path`
/// selects a call site; the lowest bit is that of the outermost link.
#[inline(never)]
pub(crate) fn run(path: u32, end: &mut dyn FnMut()) -> u64 {
    link::<{ DEPTH }>(path, end)
}

/// Returns the same path every time.
pub(crate) fn same(_: u32) -> u32 {
    0
}

/// Returns paths that differ in the innermost four links every time.
pub(crate) fn inner4(i: u32) -> u32 {
    (i % 16) << (DEPTH - 4)
}

/// Returns 321 paths in turn, which differ near the outermost link every time.
pub(crate) fn other(i: u32) -> u32 {
    // The factor is odd, so the lowest bits change every time, and the others with them.
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

/// A link with some words on its frame and two call sites.
#[inline(never)]
fn frame<const LEFT: u32>(path: u32, end: &mut dyn FnMut(), next: Next) -> u64 {
    let own = black_box([u64::from(path); 3]);
    // On two lines, so that the two call sites have different names.
    let called = match path & 1 {
        0 => black_box(next)(path >> 1, end),
        _ => black_box(next)(path >> 1, end) ^ 1,
    };
    called.wrapping_add(own[LEFT as usize % 3])
}
