//! Ranks of a made-up training, the same for the same number: steps of activations over weights, with a little noise.

use memreel_snapshot::{
    Action, Snapshot, StreamId,
    model::{
        Frame, StackIndex, TraceEntry, Value,
        raw::{Field, Shape, ShapeId, Slot},
    },
};
use memreel_testing::random::Random;

const N_STEPS: usize = 20;
const N_SITES: u64 = 200;
const DEPTH: u64 = 12;
const MIB: u64 = 1 << 20;
const WEIGHTS_BYTES: u64 = 4096 * MIB;
const STEP_BYTES: u64 = 8192 * MIB;
const BASE: u64 = 0x7f00_0000_0000;

/// How a rank differs from the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The activations of one step are a quarter larger.
    Large,
    /// Each step leaves a thirtieth of its activations.
    Leak,
    /// A request fails in the middle of a step, and the rank ends.
    Oom,
    /// A segment that nothing uses.
    Waste,
    /// Every fifth activation is of one other site.
    Site,
}

/// One rank of each kind.
pub(crate) const PLANTED: [Kind; 5] = [Kind::Large, Kind::Leak, Kind::Oom, Kind::Waste, Kind::Site];

impl Kind {
    /// Returns which of `n_ranks` ranks is of this kind.
    pub(crate) fn number(self, n_ranks: usize) -> usize {
        (self as usize * 2 + 1) * n_ranks / 10
    }
}

/// Returns the snapshot of a rank.
pub(crate) fn rank(number: usize, n_ranks: usize, n_events: usize) -> Snapshot {
    let kind = PLANTED.into_iter().find(|kind| kind.number(n_ranks) == number);
    let mut snapshot = Snapshot::default();
    let mut rank = Rank {
        sites: sites(&mut snapshot),
        random: Random::new(number as u64 + 1),
        trace: Vec::with_capacity(n_events),
        shape: shape(&mut snapshot, ""),
        time_us: 1_700_000_000_000_000 + number as i64,
    };
    rank.event(Action::SegmentAlloc, BASE, WEIGHTS_BYTES + 2 * STEP_BYTES, 0);
    if kind == Some(Kind::Waste) {
        rank.event(Action::SegmentAlloc, BASE / 2, STEP_BYTES / 4, 0);
    }
    rank.event(Action::Alloc, BASE, WEIGHTS_BYTES, 0);
    // A block is an alloc, a request to free, and its completion.
    let n_blocks = n_events / N_STEPS / 3;
    for step in 0..N_STEPS {
        rank.shape = shape(&mut snapshot, &format!("step#{step}"));
        if !rank.step(step, n_blocks as u64, kind) {
            break;
        }
    }
    snapshot.device_traces = vec![rank.trace];
    snapshot.shape =
        Shape::from_fields(&[("segments", Field::Segments), ("device_traces", Field::DeviceTraces)]);
    snapshot
}

struct Rank {
    sites: Vec<StackIndex>,
    random: Random,
    trace: Vec<TraceEntry>,
    shape: ShapeId,
    time_us: i64,
}

impl Rank {
    fn event(&mut self, action: Action, address: u64, size: u64, site: usize) {
        self.time_us += 7;
        self.trace.push(TraceEntry {
            address: address.into(),
            size,
            stream: StreamId::DEFAULT,
            time_us: self.time_us,
            stack: Some(self.sites[site]),
            shape: self.shape,
            action: Some(action),
        });
    }

    /// Adds a step; returns whether the rank goes on.
    fn step(&mut self, step: usize, n_blocks: u64, kind: Option<Kind>) -> bool {
        let block_bytes = STEP_BYTES / n_blocks;
        let bytes =
            if kind == Some(Kind::Large) && step == N_STEPS / 2 { block_bytes * 5 / 4 } else { block_bytes };
        let mut held = Vec::new();
        let mut at = BASE + WEIGHTS_BYTES;
        for block in 0..n_blocks {
            let size = bytes - self.random.below(bytes / 100 + 1);
            let usual = (block * (N_SITES - 2) / n_blocks) as usize;
            let site = if kind == Some(Kind::Site) && block % 5 == 0 { N_SITES as usize - 1 } else { usual };
            if kind == Some(Kind::Oom) && step == N_STEPS / 2 && block == n_blocks * 2 / 3 {
                self.event(Action::Oom, 0, size, site);
                return false;
            }
            self.event(Action::Alloc, at, size, site);
            held.push((at, size, site));
            at += 2 * block_bytes;
        }
        let n_left = if kind == Some(Kind::Leak) { n_blocks / 30 } else { 0 };
        if n_left > 0 {
            // What a step leaves must not be where the next one allocates.
            held.truncate(held.len() - n_left as usize);
            let from = held.len() as u64;
            for (number, block) in (from..n_blocks).enumerate() {
                let old = BASE + WEIGHTS_BYTES + 2 * block_bytes * block;
                let size = self
                    .trace
                    .iter()
                    .rev()
                    .find(|entry| entry.address == old.into())
                    .map_or(0, |entry| entry.size);
                let site = (block * (N_SITES - 2) / n_blocks) as usize;
                self.event(Action::FreeRequested, old, size, site);
                self.event(Action::FreeCompleted, old, size, site);
                let kept = BASE + (64 << 32) + ((step as u64) << 32) + number as u64 * 2 * block_bytes;
                self.event(Action::Alloc, kept, size, site);
            }
        }
        for (address, size, site) in held.into_iter().rev() {
            self.event(Action::FreeRequested, address, size, site);
            self.event(Action::FreeCompleted, address, size, site);
        }
        true
    }
}

fn shape(snapshot: &mut Snapshot, scope: &str) -> ShapeId {
    let keys = [
        ("action", Field::Action),
        ("addr", Field::Addr),
        ("size", Field::Size),
        ("stream", Field::Stream),
        ("time_us", Field::TimeUs),
    ];
    let mut shape = Shape::from_fields(&keys);
    shape.slots.push(("compile_context".into(), Slot::Value(Value::text("N/A"))));
    shape.slots.push(("user_metadata".into(), Slot::Value(Value::text(scope))));
    shape.slots.push(("frames".into(), Slot::Field(Field::Frames)));
    snapshot.shapes.intern(shape)
}

fn sites(snapshot: &mut Snapshot) -> Vec<StackIndex> {
    let keys = [("name", Field::Name), ("filename", Field::Filename), ("line", Field::Line)];
    let shape = snapshot.shapes.intern(Shape::from_fields(&keys));
    (0..N_SITES)
        .map(|site| {
            let frame = |depth: u64| Frame {
                name: format!("layer_{site}_{depth}").into(),
                filename: format!("/srv/model/part_{depth}.py").into(),
                line: 10 + site,
                shape,
            };
            let frames: Vec<_> = (0..DEPTH).map(|depth| snapshot.stacks.intern_frame(frame(depth))).collect();
            snapshot.stacks.intern_stack(&frames)
        })
        .collect()
}
