//! Tests that need an NVIDIA GPU: the device's contract, recorded scenarios on real memory, two streams,
//! capture, out of memory, leaks.
//!
//! It has its own harness, because the standard one cannot report a skipped test:
//! without a GPU every test is skipped and none counts as passed.
//! `--repeat FILE…` runs the requests of snapshots again, without a GPU.
//! Recordings come from the folder `MEMREEL_SCENARIOS`, by default from `fixtures`.

#[path = "../it/allocator/device_contract.rs"]
#[allow(dead_code, unused_imports)]
mod device_contract;
#[path = "../it/allocator/replay.rs"]
#[allow(dead_code)]
mod replay;

mod live;
mod memory;
mod own;
mod scenarios;
mod spin;
mod streams;
mod typed;

use std::panic;

use memreel::device::Cuda;

/// All tests by name. An argument of the command line selects the names that contain it.
const TESTS: &[(&str, fn())] = &[
    ("contract", contract),
    ("scenarios", scenarios::live_runs_equal_their_repetition),
    ("streams::a_busy_stream_keeps_its_block", streams::a_busy_stream_keeps_its_block),
    ("streams::an_unknown_stream_is_an_error", streams::an_unknown_stream_is_an_error),
    ("streams::a_capture_allocates_from_its_pool", streams::a_capture_allocates_from_its_pool),
    ("memory::a_full_device_is_an_error_and_recovers", memory::a_full_device_is_an_error_and_recovers),
    ("memory::everything_goes_back", memory::everything_goes_back),
    ("memory::an_expandable_segment_is_usable_memory", memory::an_expandable_segment_is_usable_memory),
    ("memory::every_gpu_is_a_device_of_its_own", memory::every_gpu_is_a_device_of_its_own),
    ("typed::slices_are_cudarcs_arrays", typed::slices_are_cudarcs_arrays),
    ("typed::other_streams_are_waited_for", typed::other_streams_are_waited_for),
    ("typed::a_slice_keeps_its_stream_alive", typed::a_slice_keeps_its_stream_alive),
];

fn contract() {
    use device_contract::Ranges;

    let device = live::Live::new();
    let stream = device.streams(2)[1];
    device_contract::keeps_the_contract_on(&device, stream, Ranges::Supported);
    let limited = memreel::device::Limit::new(device, 100 << 20);
    device_contract::keeps_the_contract_on(&limited, stream, Ranges::Supported);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, paths @ ..] = &arguments[..]
        && first == "--repeat"
    {
        std::process::exit(i32::from(!own::repeat(paths)));
    }
    let filters: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter));
    let chosen: Vec<_> = TESTS.iter().filter(|(name, _)| wanted(name)).collect();
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
