//! `libmemreel_preload.so`: records what any program requests from NVIDIA's driver, without changing the program.
//!
//! The library is in `LD_PRELOAD`. A program finds the driver's functions in three ways, and meets a wrapper in each: by
//! linking (the wrappers are exported), by `dlsym` (`dlsym.rs`), and by `cuGetProcAddress` (`lookup.rs`). A wrapper
//! (`calls/`) calls the driver and reports to the ledger of the device (`gpus.rs`); nothing is on the path of a launch.
//! `memreel record` prepares the environment, and makes a snapshot of the tape that each process leaves.
//!
//! Three rules hold for all wrappers: the program gets what the driver returns; a failure of this library ends the
//! recording, not the program; a free is recorded before the driver is called, an allocation after.
#![cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod types;
mod notice;
mod loader;
mod entry;
mod nested;
mod driver;
mod marks;
mod pending;
mod parts;
mod seen;
mod addresses;
mod alive;
mod gpu;
mod totals;
mod python;
mod run;
mod readable;
mod cleaned;
mod state;
mod pools;
mod completions;
mod others;
mod driver_memory;
mod unmapped;
mod looks;
mod intervals;
mod ending;
mod errno;
mod forks;
mod heap;
mod own_bytes;
mod requests;
mod gpus;
mod held;
mod arrays;
mod physical;
mod physical_table;
mod mappings;
mod pinned;
mod captures;
mod contexts;
mod green_contexts;
mod calls;
mod behind;
mod brief_file;
mod rights;
mod told;
mod failed;
mod root;
mod lookup;
mod dlsym;

pub use dlsym::dlsym;

/// This library's memory is in no heap of the program.
#[global_allocator]
static OWN_PAGES: memreel::integrate::OwnPages = memreel::integrate::OwnPages;
