//! Records programs that use a stand-in for NVIDIA's driver (`mock/`), in every way in which programs find the driver.

#[path = "driver/header.rs"]
mod header;
#[path = "driver/mapped.rs"]
mod mapped;
#[path = "mock/mod.rs"]
mod mock;
#[path = "driver/places.rs"]
mod places;

use memreel::{
    Action, DeviceId,
    analysis::{DeviceHistory, oom::Verdict},
};

use mock::Run;

/// The blocks that a program says it has are those of the snapshot, and what it gave back is gone.
#[test]
fn a_program_is_met_however_it_finds_the_driver() {
    for way in ["linked", "dlsym", "asked", "asked_twin"] {
        let run = Run::of(way, "blocks");
        let recorded = run.recorded();
        assert_eq!(recorded.blocks(0), run.printed("block"), "{way}");
        let gone = run.printed("gone");
        let count = |action: Action| recorded.count(0, action);
        // Three blocks of one allocation each, one of a pool, and a hundred pairs.
        assert_eq!((count(Action::Alloc), gone.len()), (104, 1), "{way}");
        assert_eq!(count(Action::FreeRequested), 101, "{way}");
        assert!(count(Action::FreeCompleted) > 90, "{way}: addresses are used again");
        recorded.assert_valid();
    }
}

#[test]
fn every_kind_of_memory_is_recorded() {
    let run = Run::prepared("dlsym", "kinds").env("MOCK_OTHERS", "104857600").start();
    let recorded = run.recorded();
    assert_eq!(recorded.blocks(0), sorted([run.printed("block"), run.printed("mapped")].concat()));
    // Neighbours are one range.
    let [(first, bytes), (second, more)] = run.printed("mapped")[..] else { panic!() };
    assert_eq!(first + bytes, second);
    assert_eq!(recorded.mapped(0), [(first, bytes + more)]);
    assert_eq!((recorded.count(0, Action::SegmentMap), recorded.count(0, Action::SegmentUnmap)), (4, 2));
    let pinned = recorded.blocks_of("pinned host memory");
    assert_eq!(pinned, run.printed("pinned"));
    let mib = |n: u64| n << 20;
    assert_eq!(recorded.marked("driver:context"), mib(500));
    assert_eq!(recorded.marked("driver:module"), mib(4));
    assert_eq!(recorded.marked("driver:graph"), mib(6));
    assert_eq!(recorded.marked("memory:managed"), mib(7));
    recorded.assert_valid();
    // All that the device reports as used is explained; the other process is beside it.
    let last = recorded.snapshot.usage()[0].reports.last().unwrap().report;
    assert_eq!(last.other_processes_bytes, Some(104_857_600));
    let booked = mib(510) + mib(4) + 3_072_000 + last.page_rounding_bytes;
    assert_eq!(last.used_bytes, booked + 104_857_600);
}

/// PyTorch's blocks of such sizes count; those of the program do not.
#[test]
fn pinned_blocks_that_pytorch_may_have_rounded_up_are_counted() {
    let recorded = Run::of("dlsym", "rounds").recorded();
    // Behind two GPUs and the heap.
    let table = recorded.table(3);
    let rows: Vec<_> = table.rows.iter().map(|row| (&*row.owner, row.now_bytes.unwrap() >> 20)).collect();
    assert_eq!((&*table.name, rows), ("pinned host memory", vec![("pytorch", 129), ("program", 64)]));
    assert_eq!((table.n_rounded, table.rounded_bytes), (3, 96 << 20));
}

/// Nothing is added to a stream that is captured, and nothing forbidden is asked meanwhile.
#[test]
fn captures_are_not_disturbed() {
    let run = Run::of("dlsym", "captures");
    assert_eq!(run.printed("violations"), [(0, 0)]);
    assert!(!run.err.contains("VIOLATION"), "{}", run.err);
    // What is allocated within a capture is the graph's.
    assert_eq!(run.recorded().count(0, Action::Alloc), 30);
}

/// A capture is over when its stream is captured no more, whatever the status of a call that ends one.
#[test]
fn a_capture_ends_with_its_stream() {
    let run = Run::of("dlsym", "ends");
    assert_eq!(run.printed("violations"), [(0, 0)], "{}", run.err);
    let recorded = run.recorded();
    let count = |action| recorded.count(0, action);
    // One block before the captures, and ten pairs behind them.
    assert_eq!((count(Action::Alloc), count(Action::FreeRequested)), (11, 10));
    assert_eq!(run.printed("invalid"), [(901, 0)]);
    assert_eq!(run.printed("asked"), [(0, 0)], "no capture is open any more");
}

const MIB: u64 = 1 << 20;

fn sorted(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    ranges
}

/// Device memory is counted once while a mapping or its handle lives.
#[test]
fn a_mapping_is_what_is_recorded() {
    check_mappings(Run::prepared("dlsym", "mappings"));
    // A handle may be given out again while the memory that it was of is mapped.
    check_mappings(Run::prepared("dlsym", "mappings").env("MOCK_REUSE", "1"));
}

fn check_mappings(start: mock::Start) {
    let run = start.env("MOCK_OTHERS", "0").start();
    let (recorded, mapped) = (run.recorded(), run.printed("mapped"));
    assert_eq!(recorded.mapped(0), mapped);
    assert_eq!(recorded.owned(0, "memory:alias")[0], i128::from(4 * MIB), "outside of the sum");
    assert_eq!(recorded.owned(0, "memory:unmapped")[0], i128::from(2 * MIB));
    assert_eq!(recorded.owned(0, "program")[0], i128::from(22 * MIB));
    recorded.assert_adds_up(0);
    // Each range is a block, and what is mapped twice counts once.
    assert_eq!(recorded.blocks(0), mapped);
    let history = DeviceHistory::new(&recorded.snapshot, DeviceId(0));
    assert_eq!(history.totals_at(history.end()).allocated_bytes, (500 + 22 + 2) * MIB);
    assert_eq!(history.fragmentation(history.end()).free_bytes, 0);
    // What another mapping counted before is asked for by the call that mapped it.
    let names = recorded.asked_by(mapped[0].0);
    assert!(names.iter().any(|name| name == "maps_it"), "{names:?}");
    recorded.assert_valid();
}

/// What is mapped nowhere is recorded at the calls that change it, and not at the next look.
#[test]
fn memory_without_a_mapping_is_recorded_at_once() {
    for (n_calls, mib) in [(1, 18), (2, 22), (3, 4), (4, 22), (5, 4)] {
        let run = Run::prepared("dlsym", "unmapped").argument(&n_calls.to_string()).start();
        let recorded = run.recorded();
        assert_eq!(recorded.marked("memory:unmapped"), mib * MIB, "after {n_calls} calls");
        recorded.assert_valid();
    }
}

#[test]
fn memory_of_other_processes_is_where_it_is_and_outside_of_the_sum() {
    let run = Run::prepared("dlsym", "imports").env("MOCK_OTHERS", "0").start();
    let recorded = run.recorded();
    assert_eq!(recorded.mapped(1), run.printed("mapped"));
    assert_eq!(recorded.blocks(1), sorted([run.printed("block"), run.printed("mapped")].concat()));
    assert_eq!(recorded.owned(1, "memory:imported")[0], i128::from(32 * MIB));
    // A device without a context has its identity, so that the table of a run has its memory once.
    assert!([0, 1].iter().all(|device| !recorded.table(*device).uuid.is_empty()));
    assert_eq!((recorded.mapped(0), recorded.blocks(0)), (run.printed("own"), run.printed("own")));
    assert_eq!(recorded.owned(0, "program")[0], i128::from(2 * MIB));
    recorded.assert_adds_up(0);
    recorded.assert_valid();
}

/// The addresses of a multicast object have no memory of their own, and what is bound to it is there without a handle.
#[test]
fn multicast_objects_are_no_memory() {
    let run = Run::prepared("dlsym", "multicast").env("MOCK_OTHERS", "0").start();
    let recorded = run.recorded();
    assert_eq!(recorded.mapped(0), run.printed("mapped"));
    assert_eq!(recorded.mapped(1), []);
    assert_eq!(recorded.owned(0, "memory:unmapped")[0], i128::from(8 * MIB), "bound and not mapped");
    recorded.assert_adds_up(0);
}

/// A program that makes one call after the other is looked at in these calls.
#[test]
fn the_table_adds_up_at_the_peak_as_at_the_end() {
    let run = Run::prepared("dlsym", "peak").env("MOCK_OTHERS", "0").env("MOCK_SLOW", "20000").start();
    let recorded = run.recorded();
    assert_eq!(recorded.table(0).used_peak_bytes, Some((500 + 400 + 133) * MIB));
    assert_eq!(recorded.owned(0, "driver:other"), [i128::from(133 * MIB); 2]);
    recorded.assert_adds_up(0);
}

/// Threads that make one call after the other leave no moment without a call, and the peak is seen nevertheless.
#[test]
fn the_peak_of_busy_threads_is_seen() {
    let run = Run::prepared("dlsym", "busy").env("MOCK_OTHERS", "0").env("MOCK_SLOW", "1000").start();
    let [(most, _)] = run.printed("most")[..] else { panic!("{}", run.err) };
    let seen = run.recorded().table(0).used_peak_bytes.unwrap();
    assert!(seen <= most && seen >= most / 100 * 95, "{seen} of {most}");
}

/// What other processes use is asked anew when memory appears that nothing explains.
#[test]
fn the_table_adds_up_beside_another_process() {
    let run = Run::prepared("dlsym", "shared").env("MOCK_OTHERS", "104857600").start();
    let recorded = run.recorded();
    assert_eq!(recorded.owned(0, "driver:other")[0], i128::from(64 * MIB));
    recorded.assert_adds_up(0);
}

/// The device has more in use than its processes have.
#[test]
fn what_is_counted_for_no_process_has_a_row() {
    let of_none = 14 * MIB + 400_000;
    let run = Run::prepared("dlsym", "shared").env("MOCK_OTHERS", "104857600");
    let recorded = run.env("MOCK_OF_NONE", &of_none.to_string()).start().recorded();
    assert_eq!(recorded.owned(0, "no process"), [of_none.into(); 2]);
    assert_eq!(recorded.owned(0, "other processes"), [104_857_600; 2]);
    assert_eq!(recorded.owned(0, "unexplained"), [0; 2]);
    // Beside no other process it is this one's.
    let run = Run::prepared("dlsym", "shared").env("MOCK_OTHERS", "0");
    let recorded = run.env("MOCK_OF_NONE", &of_none.to_string()).start().recorded();
    assert_eq!(recorded.owned(0, "no process"), [0; 2]);
    assert_eq!(recorded.owned(0, "driver:other")[0], i128::from(64 * MIB + of_none));
}

/// A thread of memreel's could be seen by the program.
#[test]
fn a_process_with_a_context_has_its_own_threads_only() {
    let run = Run::of("dlsym", "alone");
    assert_eq!(run.printed("threads"), [(1, 0)]);
    assert_eq!(run.recorded().blocks(0).len(), 30);
}

/// A thread that asks the driver, which takes long to answer, has no lock that a fork needs.
#[test]
fn a_fork_waits_for_no_call_of_the_driver() {
    let run = Run::of("dlsym", "stuck");
    let [(waited_ms, _)] = run.printed("forked")[..] else { panic!("{}", run.err) };
    assert!(waited_ms < 1000, "{waited_ms} ms");
    assert_eq!(run.printed("child"), [(7, 0)], "the child waits for nothing that its parent's threads do");
}

/// No stream reports that it has passed a free, so what completes frees is that the program waits.
#[test]
fn frees_complete_when_the_program_waits_or_ends_the_stream() {
    for (what, n_completed) in [("nothing", 0), ("stream", 6), ("context", 18), ("destroyed", 18)] {
        let run = Run::prepared("dlsym", "waits").argument(what).env("MOCK_BUSY", "1").start();
        let recorded = run.recorded();
        assert_eq!(recorded.count(0, Action::FreeRequested), 18, "{what}");
        assert_eq!(recorded.count(0, Action::FreeCompleted), n_completed, "{what}");
        recorded.assert_valid();
    }
}

/// Threads that begin at once record on one tape, and all of it.
#[test]
fn threads_that_begin_together_lose_nothing() {
    for _ in 0..10 {
        let run = Run::of("dlsym", "together");
        assert_eq!(run.recorded().blocks(0).len(), 40, "{}", run.err);
    }
}

/// The driver frees what a context has when it ends, on the device and on the host.
#[test]
fn nothing_of_a_context_outlives_it() {
    let recorded = Run::of("dlsym", "reset").recorded();
    assert_eq!((recorded.blocks(0), recorded.blocks_of("pinned host memory")), (vec![], vec![]));
    recorded.assert_valid();
}

#[test]
fn every_array_is_recorded() {
    let recorded = Run::of("dlsym", "arrays").recorded();
    let blocks = recorded.snapshot.segments.iter().flat_map(|segment| &segment.blocks);
    let sizes: Vec<u64> =
        blocks.map(|block| block.requested_size).filter(|bytes| *bytes == 16 << 20).collect();
    assert_eq!(sizes.len(), 3);
    recorded.assert_valid();
}

/// A name means another function from a version on, with other parameters.
#[test]
fn a_name_is_the_function_that_was_found() {
    let run = Run::of("dlsym", "instantiated");
    assert_eq!(run.printed("status"), [(0, 0)], "{}", run.err);
    assert_eq!(run.recorded().marked("driver:graph"), 6 << 20);
}

/// A handler that ends the program within a wrapped call does not wait for it.
#[test]
fn a_handler_may_end_the_program_within_a_call() {
    let run = Run::prepared("dlsym", "exits").env("MOCK_SIGNAL", "1").start();
    assert_eq!((run.status, run.signal), (Some(3), None), "{}", run.err);
}

#[test]
fn a_thread_may_be_cancelled_within_a_call() {
    let run = Run::of("dlsym", "cancelled");
    assert_eq!((run.printed("cancelled"), run.signal), (vec![(1, 0)], None), "{}", run.err);
}

#[test]
fn memory_of_graphs_is_a_part_of_the_driver() {
    let run = Run::of("dlsym", "graphs");
    assert_eq!(run.recorded().marked("driver:graph"), run.printed("graphs")[0].0);
}

/// Such a failure is neither for memory nor of the device.
#[test]
fn a_refusal_of_addresses_says_how_many_are_reserved() {
    let run = Run::of("dlsym", "addresses");
    let recorded = run.recorded();
    let [(range_bytes, n)] = run.printed("reserved")[..] else { panic!() };
    let table = recorded.table(0);
    assert_eq!(table.reserved_address_peak_bytes, n * range_bytes);
    assert_eq!(table.reserved_address_bytes, (n - 9) * range_bytes);
    assert_eq!(recorded.owned(0, "program")[0], i128::from(10 * MIB), "addresses are no memory");
    let history = DeviceHistory::new(&recorded.snapshot, DeviceId(0));
    let report = history.oom().unwrap();
    assert_eq!((report.verdict, report.requested_bytes), (Verdict::Addresses, range_bytes));
    assert_eq!(report.reserved_address_bytes, Some(n * range_bytes));
    assert!(report.device_free_bytes > 0 && !report.is_limited());
    let text = memreel::whatif::explain(&history, report).text(1);
    assert!(
        text.starts_with("addresses: 90.00 GiB of address space was requested, 127.97 TiB is reserved"),
        "{text}"
    );
    recorded.assert_adds_up(0);
    recorded.assert_valid();
}

#[test]
fn a_refusal_is_an_event() {
    let run = Run::of("dlsym", "refused");
    let recorded = run.recorded();
    let trace = &recorded.snapshot.device_traces[0];
    let oom = trace.iter().find(|entry| entry.action == Some(Action::Oom)).unwrap();
    assert_eq!(oom.size, 8 << 30);
    assert_eq!(oom.address.0, (4 << 30) - (1 << 30) - (500 << 20), "what the device had free");
    // Pinned memory that the driver refuses is one too, of the host.
    let of_host = recorded.snapshot.device_traces.iter().skip(1).flatten();
    let refused: Vec<_> =
        of_host.filter(|entry| entry.action == Some(Action::Oom)).map(|entry| entry.size).collect();
    assert_eq!(refused, [1 << 40]);
}

#[test]
fn threads_are_recorded_and_leave_nothing() {
    let run = Run::of("dlsym", "threads");
    let recorded = run.recorded();
    let live = recorded.blocks(0);
    assert!(run.printed("block").iter().all(|block| live.contains(block)));
    assert_eq!(recorded.count(0, Action::Alloc), 8 * 100 + 1);
    assert_eq!(recorded.count(0, Action::FreeRequested), 8 * 100);
    recorded.assert_valid();
}

/// Every allocation whose call has returned is on the tape.
#[test]
fn sigkill_and_abort_lose_nothing() {
    let killed = Run::of("dlsym", "killed");
    assert_eq!(killed.signal, Some(9));
    assert_eq!(killed.recorded().blocks(0), killed.printed("block"));
    let aborted = Run::prepared("dlsym", "aborted").env("MOCK_ABORT_AT", "50").start();
    assert_eq!(aborted.signal, Some(6));
    let blocks = aborted.printed("block");
    assert_eq!(blocks.len(), 49);
    assert_eq!(aborted.recorded().blocks(0), blocks);
}

#[test]
fn a_fork_leaves_its_parent_alone() {
    let run = Run::of("dlsym", "fork");
    assert_eq!(run.recorded().blocks(0), run.printed("block"));
}

#[test]
fn a_process_that_runs_another_program_has_a_tape_for_each() {
    let run = Run::of("dlsym", "exec");
    let tapes = run.tapes();
    assert_eq!(tapes.len(), 2, "{tapes:?}");
    assert_eq!(run.recorded_in(&tapes[0]).blocks(0), run.printed("block")[..1]);
    let mut later = run.printed("block")[1..].to_vec();
    later.sort_unstable();
    assert_eq!(run.recorded_in(&tapes[1]).blocks(0), later);
}

/// A program may close what it did not open.
#[test]
fn a_program_that_closes_all_files_goes_on_and_is_recorded() {
    let run = Run::of("dlsym", "closed");
    let live = run.recorded().blocks(0);
    assert!(run.printed("block").iter().all(|block| live.contains(block)));
}

/// What a program prints and returns is what it prints and returns without the library.
#[test]
fn a_program_behaves_as_without_it() {
    for what in ["blocks", "kinds", "refused", "captures", "closed"] {
        let (with, without) = (Run::of("dlsym", what), Run::prepared("dlsym", what).unrecorded().start());
        assert_eq!(with.signal, without.signal);
        let names =
            |run: &Run| run.out.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
        let (names_with, names_without): (Vec<String>, Vec<String>) = (names(&with), names(&without));
        assert_eq!(names_with, names_without, "{what}");
    }
    // A program that never uses the driver leaves nothing.
    let idle = Run::prepared("none", "").start();
    assert!(idle.tapes().is_empty());
}
