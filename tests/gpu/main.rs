//! Tests that need an NVIDIA GPU: the device's contract, recorded scenarios on real memory, two streams,
//! capture, out of memory, leaks.
//!
//! It has its own harness, because the standard one cannot report a skipped test:
//! without a GPU every test is skipped and none counts as passed.
//! `--repeat FILE…` runs the requests of snapshots again, without a GPU.
//! Recordings come from the folder `MEMREEL_SCENARIOS`, by default from `fixtures`.

mod suite;

use std::panic;

use memreel::device::Cuda;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, paths @ ..] = &arguments[..]
        && first == "--repeat"
    {
        std::process::exit(i32::from(!suite::own::repeat(paths)));
    }
    let filters: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter));
    let chosen: Vec<_> = suite::TESTS.iter().filter(|(name, _)| wanted(name)).collect();
    if let Err(why) = Cuda::new(0) {
        println!("skipped: no CUDA device ({why})");
        println!("result: 0 passed; 0 failed; {} skipped", chosen.len());
        return;
    }
    let mut n_failed = 0;
    for (name, test) in &chosen {
        println!("test {name} ...");
        let passed = panic::catch_unwind(test).is_ok();
        println!("test {name}: {}", if passed { "ok" } else { "FAILED" });
        n_failed += usize::from(!passed);
    }
    println!("result: {} passed; {n_failed} failed; 0 skipped", chosen.len() - n_failed);
    std::process::exit(i32::from(n_failed > 0));
}
