//! Dump on out of memory: the snapshot is on disk before the error reaches you.
//! `cargo run --example 03_dump_on_oom`
#![forbid(unsafe_code)]

use memreel::{
    Reel,
    device::{Host, Limit},
    recorder::Recording,
};

fn main() -> memreel::Result<()> {
    // Without a limit the system promises more host memory than it has, and no request fails.
    let reel = Reel::builder()
        .device(Limit::new(Host::new(), 64 << 20))
        .history(Recording::all())
        .save_on_oom("oom-{n}.pickle") // a file for each failure; without {n}, for the first one only
        .build()?;

    let mut batches = Vec::new();
    let error = loop {
        match reel.alloc(6 << 20) {
            Ok(block) => batches.push(block),
            Err(error) => break error,
        }
    };
    println!("{error}"); // why, what would have helped, and which stacks hold the memory
    let figures = error.out_of_memory().expect("the limit was reached");
    println!("{} bytes are in {} batches", figures.allocated_bytes, batches.len());
    if let Some(path) = &figures.snapshot {
        println!("next: memreel oom {}", path.display());
    }
    Ok(())
}
