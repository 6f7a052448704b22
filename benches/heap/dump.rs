//! The longest stop of a thread that allocates while another one takes a snapshot of a heap with many live blocks.

use std::{
    hint::black_box,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::pairs::Load;

/// How often it is measured.
const N_DUMPS: usize = 5;

/// What the other thread does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Other {
    Sleeps,
    Dumps,
}

/// The live blocks of a load.
pub(crate) fn n_blocks(load: Load) -> usize {
    if load == Load::FULL { 10_000_000 } else { 100_000 }
}

/// Returns the longest pair of malloc and free in microseconds: the median over some dumps.
pub(crate) fn longest_stop_us(load: Load, other: Other) -> f64 {
    let blocks: Vec<Box<u64>> = (0..n_blocks(load) as u64).map(Box::new).collect();
    let (longest_ns, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut stops_us: Vec<f64> = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let start = Instant::now();
                drop(black_box(Box::new(1_u64)));
                longest_ns.fetch_max(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
            }
        });
        let one = |_| {
            longest_ns.store(0, Ordering::Relaxed);
            match other {
                Other::Sleeps => thread::sleep(Duration::from_secs(1)),
                Other::Dumps => drop(black_box(memreel::snapshot().expect("a reel of the host"))),
            }
            longest_ns.load(Ordering::Relaxed) as f64 / 1000.0
        };
        let stops_us = (0..N_DUMPS).map(one).collect();
        is_done.store(true, Ordering::Relaxed);
        stops_us
    });
    drop(black_box(blocks));
    stops_us.sort_by(f64::total_cmp);
    stops_us[N_DUMPS / 2]
}
