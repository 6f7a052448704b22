//! Recorded requests of PyTorch's allocator, run again on a simulated device.

use std::{collections::HashMap, path::Path, sync::Arc};

use memreel::{
    Allocation, CachingAllocator, DeviceId, Inventory, StreamId,
    device::Simulated,
    recorder::{Context, History, Recorder},
    snapshot::{Dialect, collect},
};
use serde_json::Value;

/// One recording: what was asked of PyTorch, and what it did.
pub(crate) struct Recording {
    document: Value,
}

/// An allocator with everything that a recording prescribes.
pub(crate) struct Replay {
    device: Arc<Simulated>,
    recorder: Recorder,
    allocator: CachingAllocator,
    live: HashMap<u64, Allocation>,
    /// The device's free bytes at each recorded failure: an input, not a prediction.
    free_bytes: std::vec::IntoIter<u64>,
}

/// `[action, address, size, stream]`, and the file's segments and statistics.
#[derive(PartialEq, Debug)]
pub(crate) struct Outcome {
    pub(crate) events: Vec<(String, u64, u64, u64)>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) stats: Vec<(String, i64)>,
}

#[derive(PartialEq, Debug)]
pub(crate) struct Segment {
    pub(crate) address: u64,
    pub(crate) sizes: [u64; 4],
    pub(crate) stream: i64,
    pub(crate) kind: String,
    pub(crate) blocks: Vec<(u64, u64, u64, String)>,
}

impl Recording {
    pub(crate) fn read(path: &Path) -> Recording {
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Recording { document: serde_json::from_str(&text).unwrap() }
    }

    pub(crate) fn conf(&self) -> &str {
        self.document["conf"].as_str().unwrap()
    }

    fn events(&self) -> Vec<(String, u64, u64, u64)> {
        let event =
            |e: &Value| (e[0].as_str().unwrap().to_owned(), number(&e[1]), number(&e[2]), number(&e[3]));
        self.document["events"].as_array().unwrap().iter().map(event).collect()
    }

    pub(crate) fn replay(&self) -> Replay {
        let events = self.events();
        let addresses = events.iter().filter(|e| e.0 == "segment_alloc").map(|e| e.1);
        let total_bytes = number(&self.document["total_memory"]);
        let mut device =
            Simulated::new(total_bytes).scripted(addresses).scripted_ranges(ranges(&events, total_bytes));
        if let Some(streams) = self.document["streams"].as_array() {
            for (handle, id) in streams.iter().zip(self.document["stream_ids"].as_array().unwrap()) {
                device = device.with_stream_number(StreamId(number(handle)), number(id));
            }
        }
        let device = Arc::new(device);
        let recorder = Recorder::new();
        recorder.record_history(&History::all().context(Context::None));
        let settings = self.conf().parse().unwrap();
        let track = recorder.track(DeviceId(0));
        let allocator = CachingAllocator::with_settings(device.clone(), &track, settings);
        allocator.set_memory_limit(self.document["memory_limit"].as_u64());
        let free_bytes: Vec<_> = events.iter().filter(|e| e.0 == "oom").map(|e| e.1).collect();
        Replay { device, recorder, allocator, live: HashMap::new(), free_bytes: free_bytes.into_iter() }
    }

    /// Runs the recorded requests.
    pub(crate) fn run_ops(&self) -> Outcome {
        let mut replay = self.replay();
        let streams: Vec<_> = self.document["streams"].as_array().unwrap().iter().map(number).collect();
        for op in self.document["ops"].as_array().unwrap() {
            let id = || number(&op[1]);
            let stream = |at: usize| StreamId(streams[usize::try_from(number(&op[at])).unwrap()]);
            match op[0].as_str().unwrap() {
                "malloc" => replay.malloc(id(), number(&op[2]), stream(3)),
                "oom" => replay.oom(number(&op[2]), stream(3)),
                "free" => replay.free(id()),
                "record_stream" => replay.record_stream(id(), stream(2)),
                "busy" => replay.device.set_busy(stream(1)),
                "sync" => replay.device.synchronize(),
                "empty_cache" => replay.allocator.empty_cache().unwrap(),
                other => panic!("unknown request {other}"),
            }
        }
        replay.outcome()
    }

    /// Runs the requests that the recorded events tell of, where no other are recorded.
    pub(crate) fn run_events(&self) -> Outcome {
        let mut replay = self.replay();
        for (action, address, size, stream) in self.events() {
            match action.as_str() {
                "alloc" => replay.malloc(address, size, StreamId(stream)),
                "free_requested" => replay.free(address),
                _ => {}
            }
        }
        replay.outcome()
    }

    /// What PyTorch did.
    pub(crate) fn recorded(&self) -> Outcome {
        let segments = self.document["segments"].as_array().unwrap();
        let stats = self.document["stats"].as_object().unwrap();
        let mut stats: Vec<_> = stats.iter().map(|(k, v)| (k.clone(), v.as_i64().unwrap())).collect();
        stats.sort();
        Outcome { events: self.events(), segments: segments.iter().map(recorded_segment).collect(), stats }
    }
}

/// Where expandable segments began: at each `segment_map` outside those that
/// still have memory.
fn ranges(events: &[(String, u64, u64, u64)], total_bytes: u64) -> Vec<u64> {
    let (mut all, mut live) = (Vec::new(), Vec::<(u64, u64)>::new());
    for (action, address, size, _) in events {
        let within = |(base, _): &&mut (u64, u64)| *base <= *address && *address < *base + total_bytes;
        match (action.as_str(), live.iter_mut().find(within)) {
            ("segment_map", Some((_, mapped))) => *mapped += size,
            ("segment_map", None) => {
                live.push((*address, *size));
                all.push(*address);
            }
            ("segment_unmap", Some((_, mapped))) => *mapped -= size,
            _ => {}
        }
        live.retain(|(_, mapped)| *mapped > 0);
    }
    all
}

/// A segment as a dictionary, or as the array that recordings of models use.
fn recorded_segment(segment: &Value) -> Segment {
    const KEYS: [&str; 8] = [
        "address",
        "total_size",
        "stream",
        "segment_type",
        "allocated_size",
        "active_size",
        "requested_size",
        "blocks",
    ];
    let get = |at: usize| if segment.is_array() { &segment[at] } else { &segment[KEYS[at]] };
    let block = |b: &Value| (number(&b[0]), number(&b[1]), number(&b[2]), b[3].as_str().unwrap().to_owned());
    Segment {
        address: number(get(0)),
        sizes: [1, 4, 5, 6].map(|at| number(get(at))),
        stream: get(2).as_i64().unwrap(),
        kind: get(3).as_str().unwrap().to_owned(),
        blocks: get(7).as_array().unwrap().iter().map(block).collect(),
    }
}

impl Replay {
    fn malloc(&mut self, id: u64, bytes: u64, stream: StreamId) {
        // PyTorch answers a request for nothing with a null pointer and no event.
        if bytes > 0 {
            let block = self.allocator.alloc(bytes, stream).unwrap();
            self.live.insert(id, block);
        }
    }

    fn oom(&mut self, bytes: u64, stream: StreamId) {
        self.device.set_free_bytes(self.free_bytes.next());
        let error = self.allocator.alloc(bytes, stream).expect_err("PyTorch had no memory for this");
        assert!(error.is_out_of_memory(), "{error}");
    }

    fn free(&mut self, id: u64) {
        if let Some(block) = self.live.remove(&id) {
            block.free().unwrap();
        }
    }

    fn record_stream(&mut self, id: u64, stream: StreamId) {
        self.live[&id].record_stream(stream);
    }

    fn outcome(self) -> Outcome {
        let snapshot = collect(&self.recorder, &[&self.allocator as &dyn Inventory], Dialect::default());
        let stats = self.allocator.stats().flatten().into_iter().collect();
        let events = snapshot.device_traces[0]
            .iter()
            .map(|e| (e.action.unwrap().name().to_owned(), e.address, e.size, e.stream.cast_unsigned()));
        let segments = snapshot.segments.iter().map(|s| Segment {
            address: s.address,
            sizes: [s.total_size, s.allocated_size, s.active_size, s.requested_size],
            stream: s.stream,
            kind: s.kind.unwrap().name().to_owned(),
            blocks: s
                .blocks
                .iter()
                .map(|b| (b.address, b.size, b.requested_size, b.state.unwrap().name().to_owned()))
                .collect(),
        });
        Outcome { events: events.collect(), segments: segments.collect(), stats }
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}
