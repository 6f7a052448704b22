//! Recorded requests of PyTorch's allocator, run again on a device.

use std::{collections::HashMap, path::Path, sync::Arc};

use memreel::{
    Allocation, CachingAllocator, DeviceId, StreamId,
    device::{Device, Simulated},
    recorder::{Context, Recorder, Recording},
    snapshot::{Dialect, collect},
};
use serde_json::Value;

/// One recording: what was asked of PyTorch, and what it did.
#[derive(Debug)]
pub(crate) struct Scenario {
    document: Value,
}

/// A device, with what a scenario does to it besides allocating.
pub(crate) trait Stage: Device {
    /// Work that takes long is queued on a stream.
    fn set_busy(&self, stream: StreamId);
    /// All work is done.
    fn synchronize(&self);
    /// What the device is to say is free, where it says what it is told.
    fn set_free_bytes(&self, bytes: Option<u64>);
}

impl Stage for Simulated {
    fn set_busy(&self, stream: StreamId) {
        self.set_busy(stream);
    }

    fn synchronize(&self) {
        self.synchronize();
    }

    fn set_free_bytes(&self, bytes: Option<u64>) {
        self.set_free_bytes(bytes);
    }
}

/// `[action, address, size, stream]`.
pub(crate) type Event = (String, u64, u64, u64);

/// An allocator with everything that a recording prescribes.
pub(crate) struct Replay<D> {
    device: Arc<D>,
    recorder: Recorder,
    allocator: CachingAllocator,
    live: HashMap<u64, Allocation>,
    /// The device's free bytes at each recorded failure: an input, not a prediction.
    free_bytes: std::vec::IntoIter<u64>,
}

/// What happened, and the file's segments and statistics.
#[derive(PartialEq, Debug)]
pub(crate) struct Outcome {
    pub(crate) events: Vec<Event>,
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

impl Scenario {
    pub(crate) fn read(path: &Path) -> Scenario {
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Scenario { document: serde_json::from_str(&text).unwrap() }
    }

    /// Of events alone. `tests/gpu` uses it.
    #[allow(dead_code)]
    pub(crate) fn of(events: &[Event], total_bytes: u64) -> Scenario {
        Scenario {
            document: serde_json::json!({ "conf": "", "total_memory": total_bytes, "events": events }),
        }
    }

    pub(crate) fn conf(&self) -> &str {
        self.document["conf"].as_str().unwrap()
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        let event =
            |e: &Value| (e[0].as_str().unwrap().to_owned(), number(&e[1]), number(&e[2]), number(&e[3]));
        self.document["events"].as_array().unwrap().iter().map(event).collect()
    }

    pub(crate) fn total_bytes(&self) -> u64 {
        number(&self.document["total_memory"])
    }

    /// The handles of its streams, and the numbers that order them.
    pub(crate) fn streams(&self) -> (Vec<StreamId>, Vec<u64>) {
        let numbers = |key: &str| self.document[key].as_array().into_iter().flatten().map(number);
        (numbers("streams").map(StreamId::from_handle).collect(), numbers("stream_ids").collect())
    }

    /// A device that gives what these events tell of.
    pub(crate) fn simulated(&self, events: &[Event], total_bytes: u64, streams: &[StreamId]) -> Simulated {
        let addresses = events.iter().filter(|e| e.0 == "segment_alloc").map(|e| e.1);
        let device =
            Simulated::new(total_bytes).scripted(addresses).scripted_ranges(ranges(events, total_bytes));
        let numbered = streams.iter().zip(self.streams().1);
        numbered.fold(device, |device, (stream, number)| device.with_stream_number(*stream, number))
    }

    /// As it was recorded.
    fn replay(&self) -> Replay<Simulated> {
        let events = self.events();
        let device = self.simulated(&events, self.total_bytes(), &self.streams().0);
        self.replay_on(Arc::new(device), &events)
    }

    /// On that device; `events` say how much was free at each failure.
    fn replay_on<D: Stage + 'static>(&self, device: Arc<D>, events: &[Event]) -> Replay<D> {
        let recorder = Recorder::new();
        recorder.record_history(&Recording::all().context(Context::None));
        let settings = self.conf().parse().unwrap();
        let track = recorder.track(DeviceId(0));
        let allocator = CachingAllocator::with_settings(device.clone(), &track, settings);
        allocator.set_memory_limit(self.document["memory_limit"].as_u64());
        let free_bytes: Vec<_> = events.iter().filter(|e| e.0 == "oom").map(|e| e.1).collect();
        Replay { device, recorder, allocator, live: HashMap::new(), free_bytes: free_bytes.into_iter() }
    }

    /// Runs the recorded requests.
    pub(crate) fn run_ops(&self) -> Outcome {
        self.run(self.replay(), &self.streams().0)
    }

    /// Runs the recorded requests on that device, with streams of its own.
    #[allow(dead_code)] // `tests/gpu` uses it.
    pub(crate) fn run_ops_on<D: Stage + 'static>(
        &self,
        device: Arc<D>,
        events: &[Event],
        streams: &[StreamId],
    ) -> Outcome {
        self.run(self.replay_on(device, events), streams)
    }

    fn run<D: Stage + 'static>(&self, mut replay: Replay<D>, streams: &[StreamId]) -> Outcome {
        for op in self.document["ops"].as_array().unwrap() {
            let id = || number(&op[1]);
            let stream = |at: usize| streams[usize::try_from(number(&op[at])).unwrap()];
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
                "alloc" => replay.malloc(address, size, StreamId::from_handle(stream)),
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
fn ranges(events: &[Event], total_bytes: u64) -> Vec<u64> {
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

impl<D: Stage + 'static> Replay<D> {
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
        let snapshot = collect(&self.recorder, [&self.allocator], Dialect::default());
        let stats = self.allocator.stats().flatten().into_iter().collect();
        let events = snapshot.device_traces[0]
            .iter()
            .map(|e| (e.action.unwrap().name().to_owned(), e.address.0, e.size, e.stream.handle()));
        let segments = snapshot.segments.iter().map(|s| Segment {
            address: s.address.0,
            sizes: [s.total_size, s.allocated_size, s.active_size, s.requested_size],
            stream: s.stream.0,
            kind: s.kind.unwrap().name().to_owned(),
            blocks: s
                .blocks
                .iter()
                .map(|b| (b.address.0, b.size, b.requested_size, b.state.unwrap().name().to_owned()))
                .collect(),
        });
        Outcome { events: events.collect(), segments: segments.collect(), stats }
    }
}

/// The first thing in which two outcomes differ.
pub(crate) fn difference(ours: &Outcome, recorded: &Outcome) -> Option<String> {
    if let Some(at) = (0..ours.events.len().max(recorded.events.len()))
        .find(|at| ours.events.get(*at) != recorded.events.get(*at))
    {
        return Some(format!(
            "event {at}: {:?}, recorded {:?}",
            ours.events.get(at),
            recorded.events.get(at)
        ));
    }
    if let Some((a, b)) = ours.segments.iter().zip(&recorded.segments).find(|(a, b)| a != b) {
        return Some(format!("segment {a:?}, recorded {b:?}"));
    }
    if ours.segments.len() != recorded.segments.len() {
        return Some(format!("{} segments, recorded {}", ours.segments.len(), recorded.segments.len()));
    }
    let stats = ours.stats.iter().zip(&recorded.stats).find(|(a, b)| a != b);
    let count =
        (ours.stats.len() != recorded.stats.len()).then(|| format!("{} statistics", ours.stats.len()));
    stats.map(|(a, b)| format!("statistic {a:?}, recorded {b:?}")).or(count)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}
