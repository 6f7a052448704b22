//! The structures that the threads of a recorded program share, and the models that run them under every interleaving.
//!
//! memreel records with these types; use memreel instead of this package. What depends on the program is a type
//! parameter or a closure: where the memory of a chunk comes from, what a shard stores, how a thread waits. So the models
//! (`models`) run the code of the program, around a small allocator and recorder of their own.
//!
//! With `--cfg memreel_loom` the locks and atomics are those of loom. No other package of the repository has this `cfg`.

pub mod events;
pub mod forks;
pub mod heap;
#[cfg(all(test, memreel_loom))]
mod models;
pub mod observers;
pub mod stacks;
pub mod sync;
#[cfg(test)]
mod testing;
pub mod ticks;
pub mod turn;
