//! What is recorded under which options, and which stack an event carries.
//!
//! A little over 400 lines: the tables of options share one bench and one way to tell a stack.
#![forbid(unsafe_code)]

use std::sync::Arc;

use memreel::{
    Action, Address, Allocation, DeviceId, Reel, StreamId,
    device::{Limit, Simulated},
    integrate::Refusal,
    recorder::{Context, Enabled, Recorder, Recording, StackKind},
    snapshot::{Dialect, Snapshot, StackIndex, Value, collect},
};

const MIB: u64 = 1 << 20;

struct Bench {
    device: Arc<Simulated>,
    reel: Reel,
}

fn bench(history: Recording) -> Bench {
    let device = Arc::new(Simulated::new(80 << 30));
    let reel =
        Reel::builder().device(Limit::new(device.clone(), 100 * MIB)).history(history).build().unwrap();
    Bench { device, reel }
}

#[inline(never)]
fn allocates_here(reel: &Reel, bytes: u64) -> Allocation {
    std::hint::black_box(reel.alloc(bytes).unwrap())
}

#[inline(never)]
fn frees_here(block: Allocation) {
    drop(std::hint::black_box(block));
}

#[inline(never)]
fn empties_here(reel: &Reel) {
    std::hint::black_box(reel).empty_cache().unwrap();
}

#[inline(never)]
fn allocates_later(reel: &Reel, bytes: u64) -> Allocation {
    std::hint::black_box(reel.alloc(bytes).unwrap())
}

/// The function at the top of a stack, without its path; `-` for no key, `[]` for no frames.
fn top(snapshot: &Snapshot, stack: Option<StackIndex>) -> String {
    let Some(stack) = stack else { return "-".into() };
    let first = snapshot.stacks.frames(stack).next();
    first.map_or("[]".into(), |frame| frame.name.rsplit("::").next().unwrap().to_owned())
}

/// `action top-of-stack` for every event.
fn events(snapshot: &Snapshot) -> Vec<String> {
    let tell = |e: &memreel::snapshot::TraceEntry| {
        format!("{} {}", e.action.unwrap().name(), top(snapshot, e.stack))
    };
    snapshot.device_traces[0].iter().map(tell).collect()
}

fn actions(snapshot: &Snapshot) -> Vec<&'static str> {
    snapshot.device_traces[0].iter().map(|entry| entry.action.unwrap().name()).collect()
}

#[test]
fn the_truth_table_of_contexts() {
    for (context, of_alloc, of_free, of_block) in [
        (Context::None, "-", "-", "[]"),
        (Context::State, "-", "-", "allocates_here"),
        (Context::Alloc, "allocates_here", "allocates_here", "allocates_here"),
        (Context::All, "allocates_here", "frees_here", "allocates_here"),
    ] {
        let Bench { reel, .. } = bench(Recording::all().context(context));
        let kept = allocates_here(&reel, 2 * MIB);
        let freed = allocates_here(&reel, 3 * MIB);
        frees_here(freed);
        let snapshot = reel.snapshot();
        let expected = [
            format!("segment_alloc {of_alloc}"),
            format!("alloc {of_alloc}"),
            format!("alloc {of_alloc}"),
            format!("free_requested {of_free}"),
            format!("free_completed {of_free}"),
        ];
        assert_eq!(events(&snapshot), expected, "{context:?}");
        let blocks = &snapshot.segments[0].blocks;
        let tops: Vec<_> = blocks.iter().map(|block| top(&snapshot, block.stack)).collect();
        assert_eq!(tops, [of_block, "[]"], "{context:?}: the live block and the free rest");
        drop(kept);
    }
}

#[test]
fn stacks_none_captures_nothing() {
    let Bench { reel, .. } = bench(Recording::all().stacks(StackKind::None));
    let _block = allocates_here(&reel, MIB);
    assert_eq!(events(&reel.snapshot()), ["segment_alloc -", "alloc -"]);
}

#[test]
fn the_stack_of_a_segment_freed_by_empty_cache() {
    for (context, whole) in
        [(Context::State, "-"), (Context::Alloc, "allocates_here"), (Context::All, "empties_here")]
    {
        let Bench { reel, .. } = bench(Recording::all().context(context));
        frees_here(allocates_here(&reel, 30 * MIB));
        empties_here(&reel);
        assert_eq!(events(&reel.snapshot()).last().unwrap(), &format!("segment_free {whole}"));
    }
    // A segment that was ever split has lost its stack (caching-allocator.md 9.3).
    let Bench { reel, .. } = bench(Recording::all().context(Context::Alloc));
    frees_here(allocates_here(&reel, 2 * MIB));
    empties_here(&reel);
    assert_eq!(events(&reel.snapshot()).last().unwrap(), "segment_free -");
}

#[test]
fn a_segment_handed_out_whole_shows_its_stack() {
    let Bench { reel, .. } = bench(Recording::all());
    let _whole = allocates_here(&reel, 30 * MIB);
    let _part = allocates_here(&reel, 2 * MIB);
    let snapshot = reel.snapshot();
    let tops: Vec<_> =
        snapshot.segments.iter().map(|s| (s.total_size / MIB, top(&snapshot, s.stack))).collect();
    assert!(tops.contains(&(30, "allocates_here".into())), "{tops:?}");
    assert!(tops.contains(&(20, "[]".into())), "{tops:?}: split, so its first block has none");
}

#[test]
fn a_delayed_completion_carries_the_later_request() {
    for (context, later) in
        [(Context::State, "-"), (Context::Alloc, "allocates_later"), (Context::All, "allocates_later")]
    {
        let Bench { reel, device } = bench(Recording::all().context(context));
        let block = allocates_here(&reel, 2 * MIB);
        device.set_busy(StreamId(1));
        block.record_stream(StreamId(1));
        frees_here(block);
        device.set_idle(StreamId(1));
        let _later = allocates_later(&reel, 3 * MIB);
        let told = events(&reel.snapshot());
        assert_eq!(told[3], format!("free_completed {later}"), "{context:?}: {told:?}");
    }
}

#[test]
fn a_completion_by_empty_cache_carries_its_stack_at_all() {
    for (context, stack) in [(Context::Alloc, "allocates_here"), (Context::All, "empties_here")] {
        let Bench { reel, .. } = bench(Recording::all().context(context));
        let block = allocates_here(&reel, 2 * MIB);
        block.record_stream(StreamId(1));
        frees_here(block);
        empties_here(&reel);
        assert_eq!(events(&reel.snapshot())[3], format!("free_completed {stack}"));
    }
}

#[test]
fn out_of_memory_carries_the_stack_of_the_request() {
    #[inline(never)]
    fn asks_too_much(reel: &Reel) {
        assert!(std::hint::black_box(reel).alloc(200 * MIB).is_err());
    }
    let Bench { reel, .. } = bench(Recording::all().context(Context::Alloc));
    frees_here(allocates_here(&reel, 30 * MIB));
    asks_too_much(&reel);
    let snapshot = reel.snapshot();
    let told = events(&snapshot);
    assert_eq!(told[4..], ["segment_free asks_too_much", "oom asks_too_much"]);
    let oom = snapshot.device_traces[0].last().unwrap();
    assert_eq!(
        (oom.device_free_bytes(), oom.size),
        (100 * MIB, 200 * MIB),
        "the device's free bytes, the rounded request"
    );
}

#[test]
fn enabled_decides_how_many_events_are_kept() {
    for (enabled, n_kept) in [(Enabled::Off, 0), (Enabled::State, 1), (Enabled::All, 3)] {
        let Bench { reel, .. } = bench(Recording::all().enabled(enabled));
        let _blocks = [allocates_here(&reel, MIB), allocates_here(&reel, 512)];
        assert_eq!(reel.snapshot().device_traces[0].len(), n_kept, "{enabled:?}");
    }
}

#[test]
fn state_keeps_the_latest_event_and_all_stacks() {
    let Bench { reel, .. } = bench(Recording::state().max_entries(50));
    let _blocks = [allocates_here(&reel, MIB), allocates_here(&reel, 512)];
    let snapshot = reel.snapshot();
    assert_eq!(events(&snapshot), ["alloc allocates_here"]);
    assert_eq!(top(&snapshot, snapshot.segments[0].blocks[0].stack), "allocates_here");
}

#[test]
fn a_ring_of_four_keeps_the_last_four_of_six() {
    let Bench { reel, .. } = bench(Recording::all().max_entries(4).context(Context::None));
    let blocks = [1, 2, 3, 4, 5].map(|n| allocates_here(&reel, n * 512));
    let snapshot = reel.snapshot();
    let sizes: Vec<_> = snapshot.device_traces[0].iter().map(|entry| entry.size / 512).collect();
    assert_eq!(sizes, [2, 3, 4, 5]);
    assert_eq!(reel.recorder().n_lost(DeviceId(0)), 2 + 1, "and one more for the snapshot event");
    let settings = snapshot.allocator_settings().unwrap();
    assert_eq!(settings.get("trace_alloc_overflowed"), Some(&Value::Bool(true)));
    assert_eq!(settings.get("trace_alloc_lost_entries"), Some(&Value::Int(2)));
    drop(blocks);
}

#[test]
fn resizing_keeps_the_newest_in_order() {
    let recorder = Recorder::new();
    let ledger = recorder.ledger(DeviceId(0));
    let history = Recording::all().context(Context::None);
    let sizes = |recorder: &Recorder| -> Vec<u64> {
        let snapshot = memreel::snapshot::collect(recorder, [&ledger], Default::default());
        let all = snapshot.device_traces[0].iter();
        all.filter(|e| e.action != Some(Action::Snapshot)).map(|e| e.size).collect()
    };
    recorder.record_history(&history.clone().max_entries(4));
    let oom = |bytes| ledger.oom(Refusal { bytes, ..Refusal::default() });
    (1..=6).for_each(oom);
    recorder.record_history(&history.clone().max_entries(8));
    (7..=8).for_each(oom);
    assert_eq!(sizes(&recorder), [3, 4, 5, 6, 7, 8], "grown");
    recorder.record_history(&history.clone().max_entries(3));
    assert_eq!(sizes(&recorder), [7, 8], "shrunk to the newest three, one of which is the snapshot's");
    recorder.record_history(&history.clear_history(true));
    assert_eq!(sizes(&recorder), [0; 0], "cleared");
}

#[test]
fn switching_off_erases_events_and_keeps_the_stacks_of_live_blocks() {
    let Bench { reel, .. } = bench(Recording::off());
    let before = allocates_here(&reel, 512);
    reel.record_history(&Recording::all());
    let during = allocates_here(&reel, 512);
    reel.record_history(&Recording::off());
    let after = allocates_here(&reel, 512);
    let snapshot = reel.snapshot();
    assert!(snapshot.device_traces[0].is_empty());
    let blocks = &snapshot.segments[0].blocks;
    let tops: Vec<_> = blocks.iter().take(3).map(|block| top(&snapshot, block.stack)).collect();
    assert_eq!(tops, ["[]", "allocates_here", "[]"]);
    drop((before, during, after));
}

#[test]
fn switching_on_again_keeps_what_was_recorded() {
    let Bench { reel, .. } = bench(Recording::all());
    let _first = allocates_here(&reel, 512);
    reel.record_history(&Recording::all().context(Context::None));
    let _second = allocates_here(&reel, 512);
    let expected = ["segment_alloc allocates_here", "alloc allocates_here", "alloc -"];
    assert_eq!(events(&reel.snapshot()), expected);
}

#[test]
fn skipped_actions_are_not_kept() {
    let Bench { reel, .. } =
        bench(Recording::all().skip_actions([Action::FreeRequested, Action::SegmentAlloc]));
    frees_here(allocates_here(&reel, 512));
    // A snapshot of the reel has the events that viewers need.
    let kept = collect(reel.recorder(), [reel.allocator(0).unwrap()], Dialect::default());
    assert_eq!(actions(&kept), ["alloc", "free_completed"]);
}

#[test]
fn a_snapshot_is_in_the_next_one() {
    let Bench { reel, .. } = bench(Recording::all());
    let _block = allocates_here(&reel, 1000);
    assert_eq!(actions(&reel.snapshot()), ["segment_alloc", "alloc"]);
    let snapshot = reel.snapshot();
    let marker = snapshot.device_traces[0].last().unwrap();
    assert_eq!(marker.action, Some(Action::Snapshot));
    assert_eq!((marker.address.0, marker.size, marker.stack), (0, 1024, None), "the active bytes, no frames");
}

#[test]
fn unknown_options_say_what_is_known() {
    for (error, known) in [
        ("everything".parse::<Enabled>().unwrap_err(), "\"state\""),
        ("free".parse::<Context>().unwrap_err(), "\"alloc\""),
        ("pythons".parse::<StackKind>().unwrap_err(), "\"native\""),
        ("malloc".parse::<Action>().unwrap_err(), "segment_unmap"),
    ] {
        assert!(error.is_invalid_option());
        assert!(error.to_string().contains(known), "{error}");
    }
    let kinds = ["python", "native", "all", "none", "None"].map(|text| text.parse::<StackKind>().unwrap());
    use StackKind::{All, Native, Python};
    assert_eq!(kinds, [Python, Native, All, StackKind::None, StackKind::None]);
    assert_eq!("free_completed".parse::<Action>().unwrap(), Action::FreeCompleted);
}

#[test]
fn scopes_mark_events_and_leave_annotations() {
    let Bench { reel, .. } = bench(Recording::all());
    let outside = allocates_here(&reel, 512);
    {
        let _step = reel.scope("step");
        let forward = reel.scope("forward");
        let inside = allocates_here(&reel, 512);
        drop(forward);
        frees_here(inside);
    }
    frees_here(outside);
    let snapshot = reel.snapshot();
    let scopes: Vec<_> = snapshot.device_traces[0].iter().map(|e| snapshot.user_metadata(e)).collect();
    memreel::pickle::save(&snapshot, crate::written("scopes.pickle")).unwrap();
    assert_eq!(scopes, ["", "", "step/forward", "step", "step", "", ""]);
    let told: Vec<_> = snapshot
        .external_annotations
        .iter()
        .map(|a| format!("{} {} {}", a.stage, a.name, a.device))
        .collect();
    assert_eq!(told, ["START step 0", "START step/forward 0", "END step/forward 0", "END step 0"]);
    assert!(snapshot.external_annotations.is_sorted_by_key(|a| a.time_us));
}

#[test]
fn scopes_belong_to_their_recorder_and_thread_and_end_in_any_order() {
    let (a, b) = (bench(Recording::all()).reel, bench(Recording::all()).reel);
    let outer = a.scope("outer");
    let inner = a.scope("inner");
    drop(outer);
    let _in_b = allocates_here(&b, 512);
    std::thread::scope(|threads| drop(threads.spawn(|| drop(allocates_here(&a, 1 << 20))).join()));
    let _in_a = allocates_here(&a, 512);
    drop(inner);
    let metadata = |reel: &Reel| -> Vec<String> {
        let snapshot = reel.snapshot();
        let allocs = snapshot.device_traces[0].iter().filter(|e| e.action == Some(Action::Alloc));
        allocs.map(|e| snapshot.user_metadata(e).to_owned()).collect()
    };
    assert_eq!(metadata(&b), [""]);
    assert_eq!(metadata(&a), ["", "outer/inner"]);
}

#[test]
fn times_never_run_backwards_and_are_of_today() {
    let Bench { reel, .. } = bench(Recording::all().context(Context::None));
    (0..100).for_each(|_| frees_here(allocates_here(&reel, 512)));
    let snapshot = reel.snapshot();
    let times: Vec<_> = snapshot.device_traces[0].iter().map(|entry| entry.time_us).collect();
    assert!(times.is_sorted());
    let now_us = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros();
    let apart_us = i128::try_from(now_us).unwrap() - i128::from(times[0]);
    assert!((0..60_000_000).contains(&apart_us), "{apart_us} us ago");
}

#[test]
fn frames_have_full_paths_and_lines_innermost_first() {
    let Bench { reel, .. } = bench(Recording::all());
    let _block = allocates_here(&reel, 512);
    let snapshot = reel.snapshot();
    let stack = snapshot.device_traces[0][1].stack.unwrap();
    let frames: Vec<_> = snapshot.stacks.frames(stack).collect();
    let here = frames[0];
    assert_eq!(&*here.name, "it::recorder::recording::allocates_here", "without a hash");
    assert!(here.filename.ends_with("tests/it/recorder/recording.rs"), "{}", here.filename);
    assert!(std::path::Path::new(&*here.filename).is_absolute(), "{}", here.filename);
    let source = include_str!("recording.rs");
    let line = source.lines().position(|line| line.contains("fn allocates_here")).unwrap() as u64 + 2;
    assert_eq!(here.line, line);
    assert!(frames[1].name.contains("frames_have_full_paths"), "{}", frames[1].name);
    assert!(frames.iter().all(|frame| !frame.name.starts_with("memreel::")));
}

#[test]
fn a_ledger_records_for_an_allocator_that_is_not_ours() {
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all());
    let ledger = recorder.ledger(DeviceId(1));
    let at = |offset: u64| Address(0x7000_0000 + offset);
    ledger.segment_alloc(at(0), 4096, StreamId(3)).unwrap();
    ledger.alloc(at(0), 1000, StreamId(3)).unwrap();
    ledger.alloc(at(2048), 512, StreamId(3)).unwrap();
    ledger.free_requested(at(0)).unwrap();
    ledger.alloc(Address(0x9000_0000), 100, StreamId::DEFAULT).unwrap();
    let snapshot = memreel::snapshot::collect(&recorder, [&ledger], Default::default());
    memreel::pickle::save(&snapshot, crate::written("ledger.pickle")).unwrap();
    assert_eq!(snapshot.device_traces.len(), 2, "device 0 is there, and empty");
    let told: Vec<_> = snapshot.device_traces[1].iter().map(|e| e.action.unwrap().name()).collect();
    assert_eq!(told, ["segment_alloc", "alloc", "alloc", "free_requested", "segment_alloc", "alloc"]);
    let states: Vec<_> =
        snapshot.segments[0].blocks.iter().map(|b| (b.size, b.state.unwrap().name())).collect();
    let expected =
        [(1000, "active_pending_free"), (1048, "inactive"), (512, "active_allocated"), (1536, "inactive")];
    assert_eq!(states, expected, "the gaps are blocks too");
    assert_eq!((snapshot.segments[1].total_size, snapshot.segments[1].device), (100, DeviceId(1)));

    ledger.free_completed(at(0)).unwrap();
    ledger.free(at(2048)).unwrap();
    ledger.segment_free(at(0)).unwrap();
    ledger.free(Address(0x9000_0000)).unwrap();
    assert_eq!(ledger.n_contradictions(), 0);
    assert!(memreel::snapshot::collect(&recorder, [&ledger], Default::default()).segments.is_empty());
}

#[test]
fn a_ledger_refuses_and_counts_contradicting_reports() {
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all());
    let ledger = recorder.ledger(DeviceId(0));
    ledger.segment_alloc(Address(4096), 4096, StreamId::DEFAULT).unwrap();
    ledger.alloc(Address(4096), 1024, StreamId::DEFAULT).unwrap();
    let (stream, last) = (StreamId::DEFAULT, Address(u64::MAX - 100));
    let contradictions = [
        (ledger.alloc(last, 1000, stream), "ends beyond the last address"),
        (ledger.segment_alloc(last, 1000, stream), "ends beyond the last address"),
        (ledger.segment_alloc(Address(6000), 10, stream), "overlaps the segment of 4096 bytes at 0x1000"),
        (ledger.alloc(Address(4608), 10, stream), "overlaps the live block of 1024 bytes at 0x1000"),
        (ledger.alloc(Address(8000), 1000, stream), "overlaps the segment of 4096 bytes at 0x1000"),
        (ledger.alloc(Address(5120), 0, stream), "the range at 0x1400 has no bytes"),
        (ledger.free(Address(5120)), "no live block starts at 0x1400"),
        (ledger.free_completed(Address(4096)), "the free of the block at 0x1000 was not requested"),
        (ledger.segment_free(Address(4096)), "the block at 0x1000 in the segment at 0x1000 is live"),
        (ledger.segment_free(Address(1)), "no segment starts at 0x1"),
        (ledger.segment_unmap(Address(4096), 4096).map(drop), "no mapped segment is completely in the range"),
        (ledger.block_unmap(Address(0), 0).map(drop), "no mapped segment is completely in the range"),
    ];
    for (index, (report, reason)) in contradictions.iter().enumerate() {
        let contradiction = report.unwrap_err();
        assert!(contradiction.to_string().contains(reason), "report {index}: {contradiction}");
        assert!(memreel::Error::from(contradiction).is_misuse());
    }
    assert_eq!(ledger.n_contradictions(), contradictions.len() as u64);
    assert_eq!(ledger.latest_contradiction(), contradictions[11].0.err());
    assert_eq!(recorder.n_events(DeviceId(0)), 2, "none was recorded");
}

/// Memory that is mapped is a segment of its kind; a block over those whose free waits takes their place.
#[test]
fn a_ledger_knows_mapped_memory_and_addresses_that_are_used_again() {
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all());
    let ledger = recorder.ledger(DeviceId(0));
    let at = |pages: u64| Address(0x10_0000_0000 + (pages << 21));
    ledger.segment_map(at(0), 2 << 20, StreamId::DEFAULT).unwrap();
    ledger.segment_map(at(1), 4 << 20, StreamId::DEFAULT).unwrap();
    assert!(ledger.segment_map(at(2), 2 << 20, StreamId::DEFAULT).is_err(), "it is mapped");
    assert_eq!(ledger.segment_unmap(at(0), 4 << 20), Ok(1), "the second is not wholly in the range");
    for address in [0x9000, 0x9400] {
        ledger.alloc(Address(address), 0x400, StreamId(3)).unwrap();
        ledger.free_requested(Address(address)).unwrap();
    }
    assert_eq!(ledger.block_bytes(Address(0x9000)), None, "its free was requested");
    ledger.alloc(Address(0x9200), 0x400, StreamId(3)).unwrap();
    assert_eq!(ledger.block_bytes(Address(0x9200)), Some(0x400));
    ledger.free_requested(Address(0x9200)).unwrap();
    ledger.free_completed_later(Address(0x9200)).unwrap();
    assert_eq!(ledger.n_contradictions(), 1);
    let snapshot = memreel::snapshot::collect(&recorder, [&ledger], Default::default());
    let actions: Vec<&str> =
        snapshot.device_traces[0].iter().map(|entry| entry.action.unwrap().name()).collect();
    let pair = ["segment_alloc", "alloc", "free_requested"];
    let done = ["free_completed", "segment_free"];
    let wanted =
        [&["segment_map", "segment_map", "segment_unmap"][..], &pair, &pair, &done, &done, &pair, &done]
            .concat();
    assert_eq!(actions, wanted);
    assert_eq!(snapshot.segments.len(), 1);
    assert!(snapshot.segments[0].is_expandable && snapshot.segments[0].address == at(1));
}
