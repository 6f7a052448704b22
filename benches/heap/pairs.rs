//! The loop that is timed, which the programs of other profilers include too.

use std::{
    alloc::{Layout, alloc, dealloc},
    hint::black_box,
    sync::Barrier,
    thread,
    time::Instant,
};

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Load {
    pub(crate) n_batches: usize,
    pub(crate) n_pairs: usize,
}

impl Load {
    pub(crate) const FULL: Load = Load { n_batches: 31, n_pairs: 100_000 };
    pub(crate) const QUICK: Load = Load { n_batches: 3, n_pairs: 2000 };

    /// The argument of a program that asks it for this load.
    pub(crate) fn argument(self) -> Option<&'static str> {
        (self == Load::QUICK).then_some("--quick")
    }
}

/// Blocks that are live at a time.
const N_LIVE: usize = 32;
/// Frames between a thread's function and the loop.
const DEPTH: usize = 20;
/// Bytes of the blocks, one after the other.
const SIZES: [usize; 8] = [24, 64, 16, 200, 48, 1024, 32, 112];

fn layout(n: usize) -> Layout {
    Layout::from_size_align(SIZES[n % SIZES.len()], 8).expect("a size")
}

/// Returns nanoseconds per pair on the slowest of some threads, each the median of its batches.
pub(crate) fn slowest_ns(n_threads: usize, load: Load) -> f64 {
    let barrier = Barrier::new(n_threads);
    let one = || {
        barrier.wait();
        deep(DEPTH, load)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(f64::NAN)).fold(0.0, f64::max)
    })
}

#[inline(never)]
fn deep(depth: usize, load: Load) -> f64 {
    if depth > 0 {
        return black_box(deep(black_box(depth - 1), load));
    }
    let mut batches: Vec<f64> = (0..=load.n_batches).map(|_| batch(load.n_pairs)).collect();
    // The first one warms up.
    batches.remove(0);
    batches.sort_by(f64::total_cmp);
    batches[batches.len() / 2]
}

/// Frees the oldest of some blocks and allocates another, again and again.
#[inline(never)]
fn batch(n_pairs: usize) -> f64 {
    // SAFETY: layouts with a size; each block is freed once, with its own.
    unsafe {
        let mut live: [*mut u8; N_LIVE] = std::array::from_fn(|n| alloc(layout(n)));
        let start = Instant::now();
        for n in 0..n_pairs {
            let place = n % N_LIVE;
            dealloc(live[place], layout(place));
            live[place] = black_box(alloc(layout(place)));
            live[place].write(1);
        }
        let ns = start.elapsed().as_secs_f64() * 1e9 / n_pairs as f64;
        (0..N_LIVE).for_each(|n| dealloc(live[n], layout(n)));
        ns
    }
}
