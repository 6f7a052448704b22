//! The synthetic snapshot of 1,000,000 entries, or more, that the benches read, write and analyse.

use memreel::{
    Action, BlockState, PoolKind, StreamId,
    snapshot::{
        Block, Frame, Segment, Snapshot, StackIndex, TraceEntry, Value,
        raw::{Field, Shape, ShapeId, Slot},
    },
};
use memreel_testing::random::Random;

/// The number of entries of [`synthetic`].
pub(crate) const N_EVENTS: usize = 1_000_000;
const N_FRAMES: u64 = 3_000;
/// The number of distinct stacks.
pub(crate) const N_STACKS: usize = 2_000;
const N_FRAMES_OF_A_STACK: usize = 30;
const N_SEGMENTS: u64 = 300;
const N_BLOCKS: u64 = 20_000;

const BASE: u64 = 0x7f12_0000_0000;
const SEGMENT_BYTES: u64 = 32 << 20;
const BLOCK_BYTES: u64 = 256 << 10;

/// The snapshot of [`N_EVENTS`] entries.
#[allow(dead_code)]
pub(crate) fn synthetic() -> Snapshot {
    synthetic_of(N_EVENTS)
}

/// A snapshot of `n_events` entries whose trace and blocks agree. Blocks of one
/// size are allocated, freed and allocated again, each time with other stacks
/// and requested sizes.
pub(crate) fn synthetic_of(n_events: usize) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let stacks = make_stacks(&mut snapshot);
    let shapes = EventShapes::new(&mut snapshot);
    let mut random = Random::new(1);
    let mut events = Events { trace: Vec::with_capacity(n_events), shapes, time_us: 1_700_000_000_000_000 };
    let segment_stacks: Vec<_> = (0..N_SEGMENTS).map(|_| *random.pick(&stacks)).collect();
    for (segment, stack) in (0..).zip(&segment_stacks) {
        events.add(Action::SegmentAlloc, BASE + segment * SEGMENT_BYTES, SEGMENT_BYTES, *stack);
    }
    let mut blocks = Vec::new();
    for slot in 0..N_BLOCKS {
        let block = (address(slot), BLOCK_BYTES - 1 - random.below(BLOCK_BYTES / 2), *random.pick(&stacks));
        events.add(Action::Alloc, block.0, block.1, block.2);
        blocks.push(block);
    }
    while events.trace.len() + 3 <= n_events {
        let at = random.index(N_BLOCKS as usize);
        let free_stack = *random.pick(&stacks);
        events.add(Action::FreeRequested, blocks[at].0, blocks[at].1, free_stack);
        events.add(Action::FreeCompleted, blocks[at].0, blocks[at].1, free_stack);
        blocks[at] = (blocks[at].0, BLOCK_BYTES - 1 - random.below(BLOCK_BYTES / 2), *random.pick(&stacks));
        events.add(Action::Alloc, blocks[at].0, blocks[at].1, blocks[at].2);
    }
    let spare = BASE + N_SEGMENTS * SEGMENT_BYTES;
    for action in [Action::SegmentAlloc, Action::SegmentFree].into_iter().take(n_events - events.trace.len())
    {
        events.add(action, spare, SEGMENT_BYTES, segment_stacks[0]);
    }
    snapshot.segments = make_segments(&mut snapshot, &segment_stacks, &blocks);
    snapshot.device_traces = vec![events.trace];
    snapshot.shape =
        Shape::from_fields(&[("segments", Field::Segments), ("device_traces", Field::DeviceTraces)]);
    snapshot
}

/// Returns the address of a slot. Slots are dealt to the segments in turn, and are adjacent in each from its start.
fn address(slot: u64) -> u64 {
    BASE + slot % N_SEGMENTS * SEGMENT_BYTES + slot / N_SEGMENTS * BLOCK_BYTES
}

fn make_stacks(snapshot: &mut Snapshot) -> Vec<StackIndex> {
    let keys = [("name", Field::Name), ("filename", Field::Filename), ("line", Field::Line)];
    let shape = snapshot.shapes.intern(Shape::from_fields(&keys));
    let frames: Vec<_> = (0..N_FRAMES)
        .map(|n| {
            let name = format!("function_{n}").into();
            let filename = format!("/usr/lib/python3/site-packages/package_{}/module_{n}.py", n % 40).into();
            snapshot.stacks.intern_frame(Frame { name, filename, line: 10 + n % 900, shape })
        })
        .collect();
    let mut random = Random::new(42);
    (0..N_STACKS)
        .map(|_| {
            let members: Vec<_> = (0..N_FRAMES_OF_A_STACK).map(|_| *random.pick(&frames)).collect();
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
        let mut shape = Shape::from_fields(&[
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
            address: address.into(),
            size,
            stream: StreamId::DEFAULT,
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
    let block_shape = snapshot.shapes.intern(Shape::block());
    let shape = snapshot.shapes.intern(Shape::segment(true));
    let per_segment = usize::try_from(N_SEGMENTS).expect("a small number");
    let segment = |(at, stack): (usize, &StackIndex)| {
        let address = BASE + at as u64 * SEGMENT_BYTES;
        let mut blocks: Vec<_> = live
            .iter()
            .skip(at)
            .step_by(per_segment)
            .map(|&(address, requested_size, stack)| Block {
                address: address.into(),
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
            address: (address + active_size).into(),
            size: SEGMENT_BYTES - active_size,
            requested_size: 0,
            stack: Some(memreel::snapshot::StackTable::EMPTY),
            shape: block_shape,
            state: Some(BlockState::Inactive),
        });
        Segment {
            address: address.into(),
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
