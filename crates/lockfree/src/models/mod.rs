//! The structures under every interleaving of a few threads: `cargo xtask gate --only loom`.
//!
//! loom reports a deadlock by itself. What is not atomic is marked ([`NotAtomic`](crate::sync::NotAtomic)): loom fails if two
//! threads could be there at once, or one before it sees what the other has written.
#![forbid(unsafe_code)]

mod allocator;
mod chunks;
mod forks;
mod heap;
mod recorder;
mod recording;
mod stacks;
mod turns;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use loom::{
    model::Builder,
    thread::{self, JoinHandle},
};

/// Runs a model, and prints how many interleavings there were.
fn explore(name: &str, model: impl Fn() + Sync + Send + 'static) {
    explore_with(name, None, model);
}

/// Like [`explore`], but threads are interrupted only so many times, because all interleavings would be
/// a million. Errors of a protocol show with two.
fn explore_with(name: &str, most_interruptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let n = Arc::new(AtomicUsize::new(0));
    let n_too = n.clone();
    let mut builder = Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound = most_interruptions;
    builder.check(move || {
        // Relaxed: a count.
        n_too.fetch_add(1, Ordering::Relaxed);
        model();
    });
    println!("{name}: {} interleavings", n.load(Ordering::Relaxed));
}

/// Starts a thread with room for what the structures put on a stack.
fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::Builder::new().stack_size(1 << 16).spawn(work).unwrap()
}
