//! Gate in a test: fail when a change makes the peak grow, and show which stacks hold the memory.
//! `cargo run --example 05_gate_in_a_test`, or as a test: `cargo test --example 05_gate_in_a_test`
#![forbid(unsafe_code)]

use memreel::{Buffer, Reel, Result, recorder::Recording};

/// The code under test.
fn work(reel: &Reel) -> Result<()> {
    let input = Buffer::<f32>::zeros(reel.allocator(0)?, &[512, 1024])?; // 2 MiB
    let output = input.map(|x| x + 1.0)?; // 2 MiB more
    output.apply(f32::sqrt); // in place
    Ok(())
}

fn check() -> Result<()> {
    // Without history there is nothing to check, so record all of it.
    let reel = Reel::builder().history(Recording::all()).build()?;
    work(&reel)?;
    memreel::assert_peak!(reel.snapshot(), 4 << 20); // at most 4 MiB in use at any moment
    memreel::assert_live!(reel.snapshot(), 0); // nothing is left at the end
    Ok(())
}

#[test]
fn work_needs_at_most_4_mib() -> Result<()> {
    check()
}

fn main() -> Result<()> {
    check()?;
    println!("the peak is within 4 MiB and nothing is left");
    Ok(())
}
