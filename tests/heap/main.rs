//! The process's heap as a device: each test in a process of its own, because a process has one heap and one history.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(missing_docs)]

mod at_the_ends;
mod dumps;
mod events;
mod forks;
mod named;
mod sampling;
mod signals;
mod system;
mod taken;
mod threads;
mod told;

use memreel::Heap;
use memreel_testing::own_process;
use system::Marked;

#[global_allocator]
static HEAP: Heap<Marked> = Heap::with(Marked);
