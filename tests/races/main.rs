//! Safe programs on `memreel::cuda`, on a driver without a GPU that finds unordered work (`driver/mod.rs`).
//!
//! The program compiles that driver with rustc and starts itself again with it in front of the loader's folders,
//! so that a real driver is never used. It has its own harness, like the tests that need a GPU, which run here
//! too: they are the same source. An argument selects the tests whose names contain it; `MEMREEL_PROGRAMS` is the
//! number of random programs, or a range of seeds such as `1000..2000`.
#![allow(missing_docs)]

#[path = "../gpu/suite.rs"]
mod suite;

mod contexts;
// The driver is loaded as a library; it is also a module, so that it is linted and formatted like the rest.
#[allow(dead_code)]
mod driver;
mod errors;
mod fake;
mod graphs;
mod order;
mod pools;
mod random;

use std::{env, panic};

/// All tests by name, besides those of a GPU.
const TESTS: &[(&str, fn())] = &[
    ("driver::unordered_work_is_found", order::unordered_work_is_found),
    ("order::a_block_is_not_reused_early", order::a_block_is_not_reused_early),
    ("order::concurrent_readers_are_all_waited_for", order::concurrent_readers_are_all_waited_for),
    ("order::the_last_stream_may_be_dropped", order::the_last_stream_may_be_dropped),
    ("order::a_reused_handle_is_another_stream", order::a_reused_handle_is_another_stream),
    ("order::a_per_thread_stream_is_many_streams", order::a_per_thread_stream_is_many_streams),
    ("order::an_unmanaged_use_keeps_the_block", order::an_unmanaged_use_keeps_the_block),
    ("pools::a_begun_pool_keeps_guards", pools::a_begun_pool_keeps_guards),
    ("pools::another_threads_pool_keeps_guards", pools::another_threads_pool_keeps_guards),
    ("pools::record_stream_during_a_capture_is_pytorchs", pools::record_stream_during_a_capture_is_pytorchs),
    ("contexts::null_streams_of_two_gpus_are_two", contexts::null_streams_of_two_gpus_are_two),
    ("contexts::a_copy_between_gpus_is_waited_for", contexts::a_copy_between_gpus_is_waited_for),
    ("contexts::other_contexts_are_refused", contexts::other_contexts_are_refused),
    ("errors::a_pending_error_is_not_an_order", errors::a_pending_error_is_not_an_order),
    ("errors::a_failing_wait_becomes_a_wait_of_the_host", errors::a_failing_wait_becomes_a_wait_of_the_host),
    ("graphs::a_failed_capture_leaves_nothing", graphs::a_failed_capture_leaves_nothing),
    ("graphs::a_graph_of_cudarc_does_not_keep_it", graphs::a_graph_of_cudarc_does_not_keep_it),
    ("graphs::only_a_graph_uses_its_pool", graphs::only_a_graph_uses_its_pool),
    ("graphs::captures_of_two_threads_are_two", graphs::captures_of_two_threads_are_two),
    ("random::programs_have_no_race", random::programs_have_no_race),
];

/// The memory of the GPU on which the scenarios were recorded.
const OF_A_GPU: u64 = 85_017_493_504;

fn main() {
    fake::start_again();
    let filters: Vec<String> = env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter));
    let own = TESTS.iter().map(|(name, test)| (name.to_string(), *test, 64 << 20));
    let of_a_gpu = suite::TESTS.iter().map(|(name, test)| (format!("gpu::{name}"), *test, OF_A_GPU));
    let chosen: Vec<_> = own.chain(of_a_gpu).filter(|(name, ..)| wanted(name)).collect();
    let mut failed = Vec::new();
    for (name, test, device_bytes) in &chosen {
        fake::reset(2, *device_bytes);
        let passed = panic::catch_unwind(|| {
            test();
            fake::assert_clean();
        });
        println!("test {name}: {}", if passed.is_ok() { "ok" } else { "FAILED" });
        if passed.is_err() {
            failed.push(name.as_str());
        }
    }
    println!("result: {} passed; {} failed {failed:?}", chosen.len() - failed.len(), failed.len());
    std::process::exit(i32::from(!failed.is_empty()));
}
