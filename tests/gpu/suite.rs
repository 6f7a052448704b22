//! The tests of a GPU by name. `tests/races` runs them too, without a GPU.

#[path = "../it/allocator/device_contract.rs"]
#[allow(dead_code, unused_imports)]
mod device_contract;
#[path = "../it/allocator/replay.rs"]
#[allow(dead_code)]
mod replay;

#[path = "live.rs"]
mod live;
#[path = "memory.rs"]
mod memory;
#[path = "own.rs"]
#[allow(dead_code)]
pub(crate) mod own;
#[path = "scenarios.rs"]
mod scenarios;
#[path = "spin.rs"]
mod spin;
#[path = "streams.rs"]
mod streams;
#[path = "typed.rs"]
mod typed;

/// All tests by name. An argument of the command line selects the names that contain it.
pub(crate) const TESTS: &[(&str, fn())] = &[
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
    ("typed::two_readers_are_both_waited_for", typed::two_readers_are_both_waited_for),
    ("typed::a_begun_pool_keeps_guards", typed::a_begun_pool_keeps_guards),
    ("typed::per_thread_streams_read_a_slice", typed::per_thread_streams_read_a_slice),
    ("typed::two_gpus_share_a_slice", typed::two_gpus_share_a_slice),
    ("typed::a_graph_keeps_its_memory", typed::a_graph_keeps_its_memory),
];

fn contract() {
    use device_contract::Ranges;

    let device = live::Live::new();
    let stream = device.streams(2)[1];
    device_contract::keeps_the_contract_on(&device, stream, Ranges::Supported);
    let limited = memreel::device::Limit::new(device, 100 << 20);
    device_contract::keeps_the_contract_on(&limited, stream, Ranges::Supported);
}
