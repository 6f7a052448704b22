//! Writing and reading a snapshot of 1,000,000 entries, beside CPython on the same files.
//!
//! ```text
//! cargo bench --bench pickle              a table
//! cargo bench --bench pickle -- --json    one JSON object a line
//! ```
//!
//! | case | what is timed |
//! |---|---|
//! | `write_1m` | the snapshot into a new file, without waiting for the disk, as CPython does not wait either |
//! | `load_1m` | reading that file; memreel checks the format while it reads, CPython does not |
//! | `load_1m_unshared` | reading the same snapshot as PyTorch lays it out: each malloc and each free has a list of frames of its own |
//!
//! Each figure is the median of seven runs. `extra_rss_bytes` is the peak of
//! resident memory while it ran, less what was resident before; null where the
//! kernel does not tell. On 2 cores of 4.5 GHz expect some 30 s, nearly all of it CPython's.

use std::{
    fs::{self, File},
    io,
    path::Path,
    process::Command,
    time::Instant,
};

use memreel::{
    Action, BlockState, PoolKind, pickle,
    snapshot::{Block, Field, Frame, Segment, Shape, ShapeId, Slot, Snapshot, StackIndex, TraceEntry, Value},
};

const N_EVENTS: usize = 1_000_000;
const N_FRAMES: u64 = 3_000;
const N_STACKS: usize = 2_000;
const N_FRAMES_OF_A_STACK: usize = 30;
const N_SEGMENTS: u64 = 300;
const N_BLOCKS: u64 = 20_000;
const N_RUNS: usize = 7;

const BASE: u64 = 0x7f12_0000_0000;
const SEGMENT_BYTES: u64 = 32 << 20;
const BLOCK_BYTES: u64 = 256 << 10;

/// Runs CPython on our file; prints one line a case.
const PYTHON: &str = include_str!("pickle.py");

fn main() {
    let is_json = std::env::args().any(|argument| argument == "--json");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [shared, unshared] = ["shared.pickle", "unshared.pickle"].map(|name| folder.path().join(name));
    let mut lines = vec![write_case(&shared)];
    let python = run_python(&shared, &unshared);
    lines.push(load_case("load_1m", &shared));
    if python.is_some() {
        lines.push(load_case("load_1m_unshared", &unshared));
    }
    lines.extend(python.unwrap_or_default());
    lines.iter().for_each(|line| println!("{}", if is_json { line.json() } else { line.row() }));
}

/// One figure of one tool.
struct Line {
    case: String,
    tool: &'static str,
    seconds: f64,
    bytes: u64,
    extra_rss_bytes: Option<u64>,
}

impl Line {
    #[allow(clippy::cast_precision_loss)]
    fn events_per_second(&self) -> f64 {
        N_EVENTS as f64 / self.seconds
    }

    fn json(&self) -> String {
        let rss = self.extra_rss_bytes.map_or("null".into(), |bytes| bytes.to_string());
        format!(
            r#"{{"case":"{}","tool":"{}","seconds":{:.6},"bytes":{},"extra_rss_bytes":{rss},"events_per_second":{:.0}}}"#,
            self.case,
            self.tool,
            self.seconds,
            self.bytes,
            self.events_per_second(),
        )
    }

    #[allow(clippy::cast_precision_loss)]
    fn row(&self) -> String {
        let rss = self.extra_rss_bytes.map_or("?".into(), |bytes| format!("{:.1}", bytes as f64 / 1e6));
        format!(
            "{:18} {:8} {:9.4} s {:7.2} M events/s {:8.2} MB {:>8} MB extra",
            self.case,
            self.tool,
            self.seconds,
            self.events_per_second() / 1e6,
            self.bytes as f64 / 1e6,
            rss,
        )
    }
}

fn write_case(path: &Path) -> Line {
    let snapshot = synthetic();
    assert_eq!(snapshot.n_events(), N_EVENTS);
    measure(
        "write_1m",
        path,
        || drop(fs::remove_file(path)),
        || {
            let file = File::create(path).expect("a new file");
            pickle::write(&snapshot, file).expect("space in the temporary folder");
        },
    )
}

fn load_case(case: &str, path: &Path) -> Line {
    measure(
        case,
        path,
        || (),
        || {
            let snapshot = pickle::load(path).expect("the file just written");
            assert_eq!((snapshot.n_events(), snapshot.stacks.len()), (N_EVENTS, N_STACKS + 1));
            snapshot
        },
    )
}

/// The median of the runs, and the largest growth of memory in any.
fn measure<T>(case: &str, path: &Path, prepare: impl Fn(), run: impl Fn() -> T) -> Line {
    let mut seconds = Vec::new();
    let mut growth = Some(0);
    for _ in 0..N_RUNS {
        prepare();
        let before = reset_peak();
        let start = Instant::now();
        let made = run();
        seconds.push(start.elapsed().as_secs_f64());
        drop(made);
        growth = (|| Some(growth?.max(status_bytes("VmHWM:")?.saturating_sub(before?))))();
    }
    seconds.sort_by(f64::total_cmp);
    let bytes = fs::metadata(path).expect("the file just used").len();
    Line { case: case.into(), tool: "memreel", seconds: seconds[N_RUNS / 2], bytes, extra_rss_bytes: growth }
}

/// Makes the peak of resident memory what is resident now, and gives that.
fn reset_peak() -> Option<u64> {
    fs::write("/proc/self/clear_refs", "5").ok()?;
    status_bytes("VmRSS:")
}

fn status_bytes(key: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix(key))?.trim().strip_suffix(" kB")?;
    Some(kilobytes.parse::<u64>().ok()? * 1024)
}

/// CPython's figures. It writes the second file too, since it makes PyTorch's own layout.
fn run_python(shared: &Path, unshared: &Path) -> Option<Vec<Line>> {
    let output = Command::new("python3")
        .args(["-c", PYTHON])
        .args([shared, unshared])
        .arg(N_RUNS.to_string())
        .stderr(std::process::Stdio::inherit())
        .output();
    let text = match output {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            eprintln!("skipped: there is no python3, so neither CPython's figures nor load_1m_unshared");
            return None;
        }
        output => output.expect("python3 runs").stdout,
    };
    let text = String::from_utf8(text).expect("Python prints text");
    let lines: Vec<_> = text.lines().map(python_line).collect();
    assert_eq!(lines.len(), 3, "python3 failed");
    Some(lines)
}

fn python_line(line: &str) -> Line {
    let words: Vec<_> = line.split(' ').collect();
    let [case, seconds, bytes, rss] = words[..] else { panic!("python3 printed {line:?}") };
    Line {
        case: case.into(),
        tool: "cpython",
        seconds: seconds.parse().expect("seconds"),
        bytes: bytes.parse().expect("bytes"),
        extra_rss_bytes: rss.parse().ok(),
    }
}

/// A snapshot whose trace and blocks agree: blocks of one size are handed out,
/// given back and handed out again, each time with other stacks and requested sizes.
fn synthetic() -> Snapshot {
    let mut snapshot = Snapshot::default();
    let stacks = make_stacks(&mut snapshot);
    let shapes = EventShapes::new(&mut snapshot);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut events = Events { trace: Vec::with_capacity(N_EVENTS), shapes, time_us: 1_700_000_000_000_000 };
    let segment_stacks: Vec<_> = (0..N_SEGMENTS).map(|_| random.of(&stacks)).collect();
    for (segment, stack) in (0..).zip(&segment_stacks) {
        events.add(Action::SegmentAlloc, BASE + segment * SEGMENT_BYTES, SEGMENT_BYTES, *stack);
    }
    let mut blocks = Vec::new();
    for slot in 0..N_BLOCKS {
        let block = (address(slot), BLOCK_BYTES - 1 - random.below(BLOCK_BYTES / 2), random.of(&stacks));
        events.add(Action::Alloc, block.0, block.1, block.2);
        blocks.push(block);
    }
    while events.trace.len() + 3 <= N_EVENTS {
        let at = usize::try_from(random.below(N_BLOCKS)).expect("a small number");
        let free_stack = random.of(&stacks);
        events.add(Action::FreeRequested, blocks[at].0, blocks[at].1, free_stack);
        events.add(Action::FreeCompleted, blocks[at].0, blocks[at].1, free_stack);
        blocks[at] = (blocks[at].0, BLOCK_BYTES - 1 - random.below(BLOCK_BYTES / 2), random.of(&stacks));
        events.add(Action::Alloc, blocks[at].0, blocks[at].1, blocks[at].2);
    }
    let spare = BASE + N_SEGMENTS * SEGMENT_BYTES;
    for action in [Action::SegmentAlloc, Action::SegmentFree].into_iter().take(N_EVENTS - events.trace.len())
    {
        events.add(action, spare, SEGMENT_BYTES, segment_stacks[0]);
    }
    snapshot.segments = make_segments(&mut snapshot, &segment_stacks, &blocks);
    snapshot.device_traces = vec![events.trace];
    snapshot.shape = Shape::of(&[("segments", Field::Segments), ("device_traces", Field::DeviceTraces)]);
    snapshot
}

/// Blocks lie side by side from the beginning of their segment, as many in each as go evenly.
fn address(slot: u64) -> u64 {
    BASE + slot % N_SEGMENTS * SEGMENT_BYTES + slot / N_SEGMENTS * BLOCK_BYTES
}

fn make_stacks(snapshot: &mut Snapshot) -> Vec<StackIndex> {
    let keys = [("name", Field::Name), ("filename", Field::Filename), ("line", Field::Line)];
    let shape = snapshot.shapes.intern(Shape::of(&keys));
    let frames: Vec<_> = (0..N_FRAMES)
        .map(|n| {
            let name = format!("function_{n}").into();
            let filename = format!("/usr/lib/python3/site-packages/package_{}/module_{n}.py", n % 40).into();
            snapshot.stacks.intern_frame(Frame { name, filename, line: 10 + n % 900, shape })
        })
        .collect();
    let mut random = Random(42);
    (0..N_STACKS)
        .map(|_| {
            let members: Vec<_> = (0..N_FRAMES_OF_A_STACK).map(|_| random.of(&frames)).collect();
            snapshot.stacks.intern_stack(&members)
        })
        .collect()
}

/// The events of one device, with the keys of PyTorch 2.11.
struct Events {
    trace: Vec<TraceEntry>,
    shapes: EventShapes,
    time_us: i64,
}

struct EventShapes(ShapeId);

impl EventShapes {
    fn new(snapshot: &mut Snapshot) -> Self {
        let mut shape = Shape::of(&[
            ("action", Field::Action),
            ("addr", Field::Addr),
            ("size", Field::Size),
            ("stream", Field::Stream),
            ("time_us", Field::TimeUs),
        ]);
        shape.slots.push(("compile_context".into(), Slot::Value(Value::text("N/A"))));
        shape.slots.push(("user_metadata".into(), Slot::Value(Value::text(""))));
        shape.slots.push(("frames".into(), Slot::Field(Field::Frames)));
        EventShapes(snapshot.shapes.intern(shape))
    }
}

impl Events {
    fn add(&mut self, action: Action, address: u64, size: u64, stack: StackIndex) {
        self.time_us += 7;
        self.trace.push(TraceEntry {
            address,
            size,
            stream: 0,
            time_us: self.time_us,
            stack: Some(stack),
            shape: self.shapes.0,
            action: Some(action),
        });
    }
}

fn make_segments(
    snapshot: &mut Snapshot,
    segment_stacks: &[StackIndex],
    live: &[(u64, u64, StackIndex)],
) -> Vec<Segment> {
    let block_shape = snapshot.shapes.intern(Shape::of(&[
        ("address", Field::Address),
        ("size", Field::Size),
        ("requested_size", Field::RequestedSize),
        ("state", Field::State),
        ("frames", Field::Frames),
    ]));
    let shape = snapshot.shapes.intern(Shape::of(&[
        ("device", Field::Device),
        ("address", Field::Address),
        ("total_size", Field::TotalSize),
        ("allocated_size", Field::AllocatedSize),
        ("active_size", Field::ActiveSize),
        ("requested_size", Field::RequestedSize),
        ("stream", Field::Stream),
        ("segment_type", Field::SegmentType),
        ("segment_pool_id", Field::SegmentPoolId),
        ("is_expandable", Field::IsExpandable),
        ("blocks", Field::Blocks),
        ("frames", Field::Frames),
    ]));
    let per_segment = usize::try_from(N_SEGMENTS).expect("a small number");
    let segment = |(at, stack): (usize, &StackIndex)| {
        let address = BASE + at as u64 * SEGMENT_BYTES;
        let mut blocks: Vec<_> = live
            .iter()
            .skip(at)
            .step_by(per_segment)
            .map(|&(address, requested_size, stack)| Block {
                address,
                size: BLOCK_BYTES,
                requested_size,
                stack: Some(stack),
                shape: block_shape,
                state: Some(BlockState::ActiveAllocated),
            })
            .collect();
        let active_size = blocks.len() as u64 * BLOCK_BYTES;
        let requested_size = blocks.iter().map(|block| block.requested_size).sum();
        blocks.push(Block {
            address: address + active_size,
            size: SEGMENT_BYTES - active_size,
            requested_size: 0,
            stack: Some(memreel::snapshot::Stacks::EMPTY),
            shape: block_shape,
            state: Some(BlockState::Inactive),
        });
        Segment {
            address,
            total_size: SEGMENT_BYTES,
            allocated_size: active_size,
            active_size,
            requested_size,
            kind: Some(PoolKind::Large),
            stack: Some(*stack),
            blocks,
            shape,
            ..Segment::default()
        }
    };
    segment_stacks.iter().enumerate().map(segment).collect()
}

/// Marsaglia's xorshift with a fixed seed: the same snapshot every time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).expect("a small number")]
    }
}
