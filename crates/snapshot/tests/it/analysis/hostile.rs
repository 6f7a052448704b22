//! Snapshots made to cost time or memory: many devices, nested scopes, and long texts that many records share.
//!
//! A quadratic answer takes minutes or gigabytes at these sizes, a linear one a fraction of a second.

use std::{
    fmt::Write as _,
    io,
    time::{Duration, Instant},
};

use memreel::rewrite;
use memreel_snapshot::{
    Action, Address, BlockState, DeviceId, Snapshot,
    analysis::{
        self, By, Call, DeviceHistory, FunctionName, Grouping, Histories, MAX_CALLS, Naming, Site,
        TraceNames, devices,
    },
    export::{Format, convert},
    model::{
        Annotation, Block, Frame, Segment, StackIndex, Text, TraceEntry,
        raw::{Field, Shape},
    },
};
use serde_json::json;

const MIB: u64 = 1 << 20;

/// Runs an answer, which may take a while on a busy machine but not minutes.
fn soon<T>(what: &str, answer: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let answer = answer();
    assert!(begin.elapsed() < Duration::from_secs(40), "{what} took {:?}", begin.elapsed());
    answer
}

fn mark(stage: &str, name: &Text, time_us: i64) -> Annotation {
    let file = json!({"segments": [], "device_traces": [], "external_annotations": [
        {"stage": stage, "name": "", "device": 0, "time_us": time_us}
    ]});
    let mut snapshot: Snapshot = serde_json::from_value(file).unwrap();
    Annotation { name: name.clone(), ..snapshot.external_annotations.remove(0) }
}

fn alloc(at: u64, stack: Option<StackIndex>) -> TraceEntry {
    TraceEntry {
        action: Some(Action::Alloc),
        address: Address(4096 + 512 * at),
        size: 512,
        time_us: 1000 + at as i64,
        stack,
        ..TraceEntry::default()
    }
}

#[test]
fn scopes_share_the_names_around_them() {
    const N: u64 = 4000;
    let long = Text::from("x".repeat(MIB as usize));
    let mut snapshot = Snapshot { device_traces: vec![Vec::new()], ..Snapshot::default() };
    snapshot.shapes.intern(Shape::from_fields(&[]));
    let annotations = &mut snapshot.external_annotations;
    (0..12).for_each(|at| annotations.push(mark("START", &long, at)));
    for at in 0..N {
        let name = Text::from(format!("step{at}"));
        annotations.push(mark("START", &name, 1000 + at as i64));
        annotations.push(mark("END", &name, 1000 + at as i64));
        snapshot.device_traces[0].push(alloc(at, None));
    }
    // The END of a scope is in it, and the next begins a microsecond later.
    let annotations = &mut snapshot.external_annotations;
    annotations.iter_mut().filter(|mark| &*mark.stage == "END").for_each(|mark| mark.time_us += 1);
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let groups = soon("top", || history.top(history.end(), By::Scope));
    assert_eq!(groups.iter().map(|group| group.n_blocks as u64).sum::<u64>(), N);
    let scopes = soon("scopes", || history.scopes());
    assert_eq!(soon("paths", || scopes.paths()).len() as u64, N + 12);
    let paths = scopes.paths();
    assert!(paths[12] > paths[11] && paths[12].to_string().ends_with("xx/step0"));
    for scope in ["step7", &format!("step{}", N - 1)] {
        assert!(soon("end", || scopes.end_of(scope)).is_ok());
    }
}

/// A snapshot of some devices, each with a segment, a stack of ten frames of its own, and an alloc.
fn of_devices(n: u64) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let shape = snapshot.shapes.intern(Shape::segment(true));
    for device in 0..n {
        let frame = |at: u64| Frame {
            name: format!("at::native::function_{device}_{at}(int)").into(),
            filename: format!("/a/file_{at}.py").into(),
            line: at,
            ..Frame::default()
        };
        let frames: Vec<_> = (0..10).map(|at| snapshot.stacks.intern_frame(frame(at))).collect();
        let stack = Some(snapshot.stacks.intern_stack(&frames));
        snapshot.device_traces.push(vec![alloc(0, stack)]);
        snapshot.segments.push(Segment {
            device: DeviceId(device as i64),
            address: Address(2 * MIB * (device + 1)),
            total_size: 2 * MIB,
            stack,
            shape,
            ..Segment::default()
        });
    }
    snapshot
}

#[test]
fn each_device_costs_its_own_records() {
    let snapshot = of_devices(3000);
    let histories = Histories::new(&snapshot);
    let names = TraceNames::new(&snapshot, Naming::Recycled);
    soon("the questions about every device", || {
        for device in devices(&snapshot) {
            let history = histories.of(device);
            let groups = history.top(history.end(), By::Stack);
            assert_eq!((groups.len(), history.leaks().len()), (1, 1));
            assert_eq!(
                history
                    .shown_frames()
                    .frames(match groups[0].site {
                        Site::Stack(stack) => stack,
                        _ => panic!("it has a stack"),
                    })
                    .count(),
                10
            );
            assert_eq!((names.lines(device).count(), history.scopes().is_empty()), (1, true));
            assert_eq!(history.tree(history.end(), 0).len(), 10);
        }
    });
    let parts = soon("the parts", || rewrite::parts(&snapshot).count());
    assert_eq!(parts, 3000);
    let part = rewrite::part(&snapshot, DeviceId(7)).unwrap();
    assert_eq!((part.segments.len(), part.device_traces.len(), part.stacks.len()), (1, 3000, 2));
    assert_eq!(
        part.frames(part.segments[0].stack).next().unwrap().name,
        "at::native::function_7_0(int)".into()
    );
    assert!(rewrite::part(&snapshot, DeviceId(3000)).is_none());
    soon("fix", || rewrite::fix(snapshot));
}

/// A sink that fails beyond some bytes, and notes the longest piece.
struct Sink {
    n_left: usize,
    longest: usize,
}

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.longest = self.longest.max(bytes.len());
        self.n_left = self.n_left.checked_sub(bytes.len()).ok_or(io::ErrorKind::WriteZero)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn exports_hold_a_long_text_once() {
    const N: u64 = 300;
    let long = Text::from("N".repeat(MIB as usize));
    let mut snapshot = Snapshot { device_traces: vec![Vec::new()], ..Snapshot::default() };
    let entry_shape = snapshot.shapes.intern(Shape::from_fields(&[("frames", Field::Frames)]));
    let frame_shape =
        Shape::from_fields(&[("name", Field::Name), ("filename", Field::Filename), ("line", Field::Line)]);
    let frame_shape = snapshot.shapes.intern(frame_shape);
    let block_shape = snapshot.shapes.intern(Shape::block());
    let mut blocks = Vec::new();
    for line in 0..N {
        let frame = Frame { name: long.clone(), filename: "a.cc".into(), line, shape: frame_shape };
        let frame = snapshot.stacks.intern_frame(frame);
        let stack = Some(snapshot.stacks.intern_stack(&[frame]));
        snapshot.device_traces[0].push(TraceEntry { shape: entry_shape, ..alloc(line, stack) });
        blocks.push(Block {
            address: Address(4096 + 512 * line),
            size: 512,
            requested_size: 500,
            state: Some(BlockState::ActiveAllocated),
            stack,
            shape: block_shape,
        });
    }
    let shape = snapshot.shapes.intern(Shape::segment(false));
    let (address, total_size) = (Address(4096), 512 * N);
    snapshot.segments.push(Segment { address, total_size, blocks, shape, ..Segment::default() });
    for format in [Format::Csv, Format::CsvStacks, Format::Folded, Format::Perfetto, Format::Json] {
        let mut sink = Sink { n_left: 8 << 20, longest: 0 };
        let error = soon("convert", || convert(&snapshot, format, &mut sink)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WriteZero, "{format:?}");
        assert!(sink.longest < 4 << 20, "{format:?}: a piece of {} bytes", sink.longest);
    }
    let mut profile = Vec::new();
    soon("pprof", || convert(&snapshot, Format::Pprof, &mut profile)).unwrap();
    assert!((MIB as usize..2 * MIB as usize).contains(&profile.len()));
    let mut n = 0;
    let folded = soon("folded", || {
        analysis::folded(&snapshot, None, Grouping::Memory, |stack, _| {
            let mut text = String::new();
            write!(text, "{stack}").unwrap();
            n += 1;
            if n < 20 { Ok(()) } else { Err(text.len()) }
        })
    });
    assert!(folded.is_err_and(|n_bytes| n_bytes < 2 * MIB as usize));
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    soon("top", || {
        assert_eq!(history.top(history.end(), By::Stack).len() as u64, N);
        assert_eq!(history.top(history.end(), By::Function).len(), 1);
        assert_eq!(history.diff(history.end(), &history, history.end()), []);
    });
}

#[test]
fn a_long_name_of_many_blocks_is_read_once() {
    const N: u64 = 100_000;
    let name = Text::from("n".repeat(MIB as usize));
    let entry = json!({
        "action": "annotate", "addr": 4096, "size": 512, "stream": 0, "time_us": 1, "frames": [], "user_metadata": *name,
    });
    let mut snapshot: Snapshot =
        serde_json::from_value(json!({"segments": [], "device_traces": [[entry]]})).unwrap();
    let shape = snapshot.device_traces[0][0].shape;
    let annotate = |at: u64| TraceEntry { action: Some(Action::Annotate), shape, ..alloc(at, None) };
    snapshot.device_traces = vec![(0..N).flat_map(|at| [alloc(at, None), annotate(at)]).collect()];
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let end = history.end();
    let by_name = soon("top --by name", || history.top(end, By::Name));
    let Site::Name(names) = &by_name[0].site else { panic!("{:?}", by_name.len()) };
    assert_eq!((by_name.len(), by_name[0].n_blocks, names.names()), (1, N as usize, &[name.clone()][..]));
    let by_stack = soon("top", || history.top(end, By::Stack));
    assert_eq!((by_stack.len(), &by_stack[0].names[..]), (1, &[name][..]));
}

#[test]
fn a_deep_stack_is_a_chain_of_branches() {
    const N: u64 = 200_000;
    let mut snapshot = Snapshot { device_traces: vec![Vec::new()], ..Snapshot::default() };
    let frames: Vec<_> = (0..10)
        .map(|line| {
            snapshot.stacks.intern_frame(Frame {
                name: "f".into(),
                filename: "a.py".into(),
                line,
                ..Frame::default()
            })
        })
        .collect();
    let members: Vec<_> = frames.iter().copied().cycle().take(N as usize).collect();
    let stacks = [snapshot.stacks.intern_stack(&members), snapshot.stacks.intern_stack(&members[1..])];
    snapshot.device_traces[0].extend((0..).zip(stacks).map(|(at, stack)| alloc(at, Some(stack))));
    let history = DeviceHistory::new(&snapshot, DeviceId(0));
    let lines = soon("tree", || history.tree(history.end(), 0));
    // The two stacks differ in a call that is deeper than the tree.
    assert_eq!((lines.len(), lines[0].bytes, lines[0].depth), (MAX_CALLS, 1024, 0));
    assert!(lines[1..].iter().all(|line| line.depth == 0 && line.continues));
    let (last, rest) = lines.split_last().unwrap();
    assert_eq!((last.n_left_out, last.n_blocks), (N as usize - MAX_CALLS, 2));
    assert!(rest.iter().all(|line| line.n_left_out == 0));
}

#[test]
fn stats_draw_a_bounded_number_of_pages() {
    let segment =
        |at: u64| Segment { address: Address(at << 45), total_size: 20 << 40, ..Segment::default() };
    let snapshot = Snapshot { segments: (0..50).map(segment).collect(), ..Snapshot::default() };
    let stats = analysis::stats(&snapshot, None);
    let n_pages: usize =
        stats.segments.iter().map(|segment| segment.pages.as_ref().map_or(0, String::len)).sum();
    assert_eq!((stats.n_segments, stats.segments.len(), stats.n_not_drawn), (50, 50, 49));
    assert_eq!((n_pages, stats.reserved_bytes), (1 << 20, 50 * (20 << 40)));
}

#[test]
fn segments_on_top_of_others_are_found_in_time() {
    let segment =
        |at: u64| Segment { address: Address(4096 + 512 * at), total_size: 1 << 40, ..Segment::default() };
    let snapshot = Snapshot {
        segments: (0..20_000).map(segment).collect(),
        device_traces: vec![vec![alloc(3, None)]],
        ..Snapshot::default()
    };
    let lines = soon("trace", || analysis::trace_lines(&snapshot, DeviceId(0), Naming::Recycled).count());
    assert_eq!(lines, 1);
}

/// Of a name, each character is looked at a few times.
#[test]
fn a_name_costs_its_length() {
    const N_BYTES: usize = 4_000_000;
    for part in [
        "(anonymous",
        "(anonymous)",
        "f<",
        "<T as ",
        "f(int)::{lambda(int)#1}::",
        "{lambda(",
        "{{closure}}::",
        "decltype(",
        "decltype ",
        "operator",
        "operator<",
        "operator(",
        "a::",
        "(",
        "f()::",
        " ",
        " const",
        "Net.forward.<locals>.",
        "<lambda>",
    ] {
        let name = format!("f{}", part.repeat(N_BYTES / part.len()));
        soon(part, || {
            let shortened = FunctionName::of(&name).shortened(|name| name.len() < 80);
            assert!(shortened.len() <= name.len());
            assert!(FunctionName::endings(&name).count() < name.len());
        });
        let frame = Frame { name: name.into(), ..Frame::default() };
        assert!(soon(part, || Call(&frame).to_string()).chars().count() < 100);
    }
}

/// A snapshot of blocks in the same function, each with its bytes and its line.
fn of_lines(blocks: impl Iterator<Item = (u64, u64)>) -> Snapshot {
    let mut snapshot = Snapshot { device_traces: vec![Vec::new()], ..Snapshot::default() };
    for (at, (size, line)) in (0..).zip(blocks) {
        let frame = Frame { name: "f".into(), filename: "/a/m.py".into(), line, ..Frame::default() };
        let frame = snapshot.stacks.intern_frame(frame);
        let stack = Some(snapshot.stacks.intern_stack(&[frame]));
        snapshot.device_traces[0].push(TraceEntry { size, ..alloc(MIB * at, stack) });
    }
    snapshot
}

/// Sites of one function that are alone in two snapshots are not compared each with each: neither those that nothing pairs, nor
/// those with as many bytes in front of a line that stayed, nor those of a file in which other lines moved.
#[test]
fn moved_sites_are_not_compared_each_with_each() {
    const N: u64 = 60_000;
    const FAR: u64 = 1 << 40;
    type Moved = fn(u64, u64) -> (u64, u64);
    let kinds: [(&str, Moved); 3] = [
        ("apart", |side, at| (1 + at % 7 + 10 * side, 2 * at + side)),
        ("stayed", |side, at| (1, if at == 0 { FAR } else { 2 * at + side })),
        ("moved", |side, at| match at % 2 {
            0 => (3 + at, 8 * at + side * (at + 1)),
            _ => (1 + side, FAR + 4 * at + 2 * side),
        }),
    ];
    for (kind, block) in kinds {
        let [before, after] = [0, 1].map(|side| of_lines((0..N).map(|at| block(side, at))));
        let [one, other] = [&before, &after].map(|snapshot| DeviceHistory::new(snapshot, DeviceId(0)));
        let changes = soon(kind, || one.diff(one.end(), &other, other.end()));
        let n_alone = match kind {
            "apart" => N,
            "stayed" => N - 1,
            _ => N / 2,
        };
        assert_eq!(changes.len() as u64, 2 * n_alone, "{kind}");
    }
}
