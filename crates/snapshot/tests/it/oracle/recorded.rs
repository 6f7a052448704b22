//! The file that a recorder writes of a world: in one of PyTorch's layouts, with a ring, with or without stacks.

use memreel_snapshot::{Snapshot, pickle};
use serde_json::{Map, Value, json};

use super::{
    past::{Block, Device, Event, NEVER, Range},
    world::World,
};
use crate::random::Random;

/// What a release of PyTorch writes (docs/snapshot-format.md 1.11).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Layout {
    V2_0,
    V2_2,
    V2_5,
    V2_10,
    V2_12,
}

/// Which stacks are recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Context {
    None,
    State,
    Alloc,
    All,
}

/// How a file is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) layout: Layout,
    pub(crate) context: Context,
    /// How many events the ring of each device keeps.
    pub(crate) capacity: usize,
    /// Whether entries name the scope.
    pub(crate) has_metadata: bool,
    /// Whether the file has the beginnings and ends of scopes.
    pub(crate) has_marks: bool,
}

impl Options {
    pub(crate) fn new(random: &mut Random) -> Options {
        use Layout::{V2_0, V2_2, V2_5, V2_10, V2_12};
        let layout = *random.pick(&[V2_0, V2_2, V2_5, V2_10, V2_12, V2_12]);
        let contexts = [Context::All, Context::All, Context::Alloc, Context::State, Context::None];
        // Without stacks, 2.0 does not write what a block requested.
        let contexts = if layout == V2_0 { &contexts[..4] } else { &contexts[..] };
        Options {
            layout,
            context: *random.pick(contexts),
            capacity: *random.pick(&[NEVER, NEVER, 150, 60, 10, 1]),
            has_metadata: layout >= V2_10 && random.chance(2),
            has_marks: layout >= V2_5 && random.chance(2),
        }
    }
}

/// A file of a world.
pub(crate) struct File<'w> {
    pub(crate) world: &'w World,
    pub(crate) options: Options,
    pub(crate) snapshot: Snapshot,
}

impl<'w> File<'w> {
    /// Writes the world as it is now, and reads the file.
    pub(crate) fn new(world: &'w World, options: Options) -> File<'w> {
        let json = options.json(world);
        let written: Snapshot = serde_json::from_value(json).expect("it is a snapshot");
        let snapshot = pickle::from_slice(&pickle::to_vec(&written)).expect("it was just written");
        File { world, options, snapshot }
    }

    /// How many events of a device the ring lost.
    pub(crate) fn n_lost(&self, device: &Device) -> usize {
        device.now().saturating_sub(self.options.capacity)
    }
}

impl Options {
    fn json(&self, world: &World) -> Value {
        let segments = world.devices.iter().flat_map(|device| {
            device.ranges(device.now()).into_iter().map(|range| self.segment(device, &range))
        });
        let segments: Vec<Value> = segments.collect();
        let trace = |device: &Device| -> Vec<Value> {
            let lost = device.now().saturating_sub(self.capacity);
            device.events[lost..].iter().map(|event| self.entry(event)).collect()
        };
        let traces: Vec<_> = world.devices.iter().map(trace).collect();
        let mut file = json!({"segments": segments, "device_traces": traces});
        if self.layout >= Layout::V2_5 {
            let marks = world.marks.iter().filter(|_| self.has_marks);
            let marks = marks.map(|(stage, name, device, time_us)| {
                json!({"stage": stage, "name": name, "device": device, "time_us": time_us})
            });
            file["external_annotations"] = marks.collect();
        }
        file
    }

    fn entry(&self, event: &Event) -> Value {
        let mut entry = Map::new();
        let mut put = |key: &str, value: Value| drop(entry.insert(key.into(), value));
        put("action", event.action.into());
        put(if event.action == "oom" { "device_free" } else { "addr" }, event.address.into());
        put("size", event.size.into());
        put("stream", event.stream.into());
        if self.layout >= Layout::V2_2 {
            put("time_us", event.time_us.into());
        }
        if self.layout >= Layout::V2_10 {
            put("compile_context", "N/A".into());
            put("user_metadata", if self.has_metadata { event.scope.as_str() } else { "" }.into());
        }
        if self.layout >= Layout::V2_12 {
            put("pool_id", json!([event.pool.0, event.pool.1]));
        }
        let shown = match self.context {
            Context::None | Context::State => None,
            Context::Alloc => event.allocated_by.or(event.call).filter(|call| *call < 100),
            Context::All => event.call,
        };
        if let Some(call) = shown {
            put("frames", frames(call, event.address));
        }
        entry.into()
    }

    fn segment(&self, device: &Device, range: &Range) -> Value {
        let now = device.now();
        let mut blocks: Vec<(u64, Value)> =
            device.gaps(range, now, |block| block.size).into_iter().map(|gap| (gap.0, free(gap))).collect();
        let within =
            |block: &&Block| block.address >= range.address && block.address < range.address + range.bytes;
        let there: Vec<&Block> = device.active(now).filter(within).collect();
        blocks.extend(there.iter().map(|block| (block.address, self.block(block, now))));
        blocks.sort_by_key(|(address, _)| *address);
        let blocks: Vec<Value> =
            blocks.into_iter().map(|(address, block)| self.placed(address, block)).collect();
        let sum = |size: fn(&Block) -> u64, is_meant: &dyn Fn(&Block) -> bool| -> u64 {
            there.iter().filter(|block| is_meant(block)).map(|block| size(block)).sum()
        };
        let mut segment = json!({
            "device": device.number, "address": range.address, "total_size": range.bytes,
            "allocated_size": sum(|block| block.size, &|block| block.is_held(now)),
            "active_size": sum(|block| block.size, &|_| true),
            "requested_size": sum(|block| block.requested, &|_| true),
            "stream": range.key.stream, "segment_type": if range.key.is_small { "small" } else { "large" },
            "blocks": blocks,
        });
        if self.layout >= Layout::V2_2 {
            segment["segment_pool_id"] = json!([range.key.pool.0, range.key.pool.1]);
            segment["is_expandable"] = range.is_expandable.into();
            segment["frames"] = self.frames_of_state(range.call, range.address);
        }
        segment
    }

    fn block(&self, block: &Block, now: usize) -> Value {
        let state = if block.is_held(now) { "active_allocated" } else { "active_pending_free" };
        let frames = self.frames_of_state(block.call, block.address);
        if self.layout == Layout::V2_0 {
            let used = json!([{"addr": block.address, "real_size": block.requested, "frames": frames}]);
            return json!({"size": block.size, "state": state, "history": used});
        }
        json!({"size": block.size, "requested_size": block.requested, "state": state, "frames": frames})
    }

    /// 2.0 does not write where a block is.
    fn placed(&self, address: u64, mut block: Value) -> Value {
        if self.layout >= Layout::V2_2 {
            block["address"] = address.into();
        } else {
            block
                .as_object_mut()
                .expect("it is a dictionary")
                .retain(|key, _| !["requested_size", "frames"].contains(&key.as_str()));
        }
        block
    }

    fn frames_of_state(&self, call: usize, address: u64) -> Value {
        if self.context == Context::None { json!([]) } else { frames(call, address) }
    }
}

fn free((_, bytes): (u64, u64)) -> Value {
    json!({"size": bytes, "requested_size": 0, "state": "inactive", "frames": []})
}

/// The frames of a call, the innermost first: one frame that only the call has, two of its callers, and at some
/// addresses one of the recorder, so that a call has two stacks.
fn frames(call: usize, address: u64) -> Value {
    let mut frames = Vec::new();
    if is_through_the_allocator(address) {
        frames.push(json!({"name": "c10::cuda::CUDACachingAllocator::malloc", "filename": "??", "line": 0}));
    }
    for (name, filename, line) in calls(call) {
        frames.push(json!({"name": name, "filename": filename, "line": line}));
    }
    frames.into()
}

/// Whether the stack of a call at an address has the frame of the recorder.
pub(crate) fn is_through_the_allocator(address: u64) -> bool {
    (address / 512).is_multiple_of(3)
}

/// The frames of a call that identify it.
pub(crate) fn calls(call: usize) -> [(String, String, u64); 3] {
    let inner = (format!("layer{}", call % 3), format!("/src/model{}.py", call % 2), call as u64 + 1);
    let outer = ("train".to_owned(), "/src/train.py".to_owned(), 500 + call as u64 % 2);
    [inner, outer, ("<module>".to_owned(), "/src/train.py".to_owned(), 900)]
}
