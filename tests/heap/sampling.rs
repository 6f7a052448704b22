//! A sample of the heap's allocations.

use std::{
    alloc::{GlobalAlloc, Layout},
    hint::black_box,
    time::Duration,
};

use memreel::{
    Action, DeviceId, Heap, Recovered, Snapshot,
    analysis::{By, DeviceHistory, Limits, Site},
    recorder::{Context, Recording, sample_weight},
    snapshot::Value,
};

use crate::{own_process, system::Marked, taken::sound_snapshot};

const LIMIT: Duration = Duration::from_secs(60);
const EVERY: u64 = 50_000;

/// The bytes of blocks, and the variance of their estimate.
#[derive(Default)]
struct Truth {
    bytes: f64,
    variance: f64,
}

#[allow(clippy::cast_precision_loss)]
impl Truth {
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes as f64;
        self.variance += (sample_weight(bytes as u64, EVERY) - 1.0) * (bytes as f64).powi(2);
    }

    /// Six standard deviations: wrong once in half a billion runs.
    fn assert_near(&self, estimate: f64) {
        assert!((estimate - self.bytes).abs() < 6.0 * self.variance.sqrt(), "{estimate} for {}", self.bytes);
    }
}

fn bytes_of(n: usize) -> usize {
    if n.is_multiple_of(500) { 300_000 } else { 100 << (n % 4) }
}

#[test]
#[allow(clippy::cast_precision_loss)]
fn a_sample_has_pairs_and_estimates_the_whole() {
    own_process::run(module_path!(), "a_sample_has_pairs_and_estimates_the_whole", LIMIT, || {
        let history = Recording::all().context(Context::None).sample_every(EVERY);
        memreel::record_history(&history).unwrap();
        let mut truth = Truth::default();
        for n in 0..100_000 {
            drop(black_box(vec![1_u8; bytes_of(n)]));
            truth.add(bytes_of(n));
        }
        let snapshot = sound_snapshot();
        let trace = &snapshot.device_traces[1];
        let n_of = |action| trace.iter().filter(|entry| entry.action == Some(action)).count();
        let n_allocs = n_of(Action::Alloc);
        assert!((500..20_000).contains(&n_allocs), "{n_allocs} of 100,000");
        let ours = [100, 200, 400, 800, 300_000];
        let allocs = trace.iter().filter(|entry| entry.action == Some(Action::Alloc));
        let of_ours = allocs.filter(|entry| ours.contains(&entry.size));
        truth.assert_near(of_ours.map(|entry| sample_weight(entry.size, EVERY) * entry.size as f64).sum());
    });
}

#[test]
#[allow(clippy::cast_precision_loss)]
fn answers_estimate_the_whole() {
    own_process::run(module_path!(), "answers_estimate_the_whole", LIMIT, || {
        let history = Recording::all().context(Context::None).sample_every(EVERY);
        memreel::record_history(&history).unwrap();
        let scope = memreel::scope("kept").unwrap();
        let (mut kept, mut truth) = (Vec::with_capacity(20_000), Truth::default());
        truth.add(20_000 * size_of::<Vec<u8>>());
        for n in 0..20_000 {
            kept.push(black_box(vec![1_u8; bytes_of(n)]));
            truth.add(bytes_of(n));
        }
        drop(scope);
        let snapshot = sound_snapshot();
        let answers = DeviceHistory::new(&snapshot, DeviceId(1));
        let top = answers.top(answers.end(), By::Scope);
        let is_ours = |site: &Site| matches!(site, Site::Scope(name) if *name == "kept");
        let group = top.iter().find(|group| is_ours(&group.site)).unwrap();
        truth.assert_near(group.bytes as f64);
        assert!(group.n_blocks < 5000, "counts are those of the sampled blocks");
        let leaks: u64 = answers.leaks().iter().map(|site| site.bytes).sum();
        assert!(leaks >= group.bytes && answers.peak().active_bytes >= group.bytes);
        let least = Limits::new().live_bytes(group.bytes / 2).allow_partial(true);
        assert!(least.broken_by(&snapshot).is_some());
        assert_eq!(weight_bytes(&snapshot), Some(50_000));
        assert!(!answers.trust().lacks_segment_events);
        assert!(answers.trust().warnings().iter().any(|text| text.contains("estimates")));
        drop(kept);
    });
}

/// The bytes for which a sampled block of the heap stands, by the file's settings.
fn weight_bytes(snapshot: &Snapshot) -> Option<i64> {
    let of_heap = snapshot.allocator_settings()?.get("memreel_devices")?.get("1")?;
    match of_heap.get("memreel_weight_bytes") {
        Some(Value::Int(bytes)) => Some(*bytes),
        _ => None,
    }
}

#[test]
fn a_tape_has_the_interval_of_a_heap() {
    static SAMPLED: Heap<Marked> = Heap::with(Marked).sample_every(50_000);
    own_process::run(module_path!(), "a_tape_has_the_interval_of_a_heap", LIMIT, || {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["first.tape", "second.tape"].map(|name| folder.path().join(name));
        let history = Recording::all().context(Context::None).min_size(70_000);
        memreel::record_history(&history.clone().tape(&first)).unwrap();
        let layout = Layout::from_size_align(80_000, 1).unwrap();
        // SAFETY: the layout has a size.
        let kept: Vec<_> = (0..20).map(|_| unsafe { SAMPLED.alloc(layout) }).collect();
        assert_eq!(weight_bytes(&Recovered::read(&first).unwrap().snapshot()), Some(50_000));
        // A file that begins later has what is live, and the interval.
        memreel::record_history(&history.tape(&second)).unwrap();
        let snapshot = Recovered::read(&second).unwrap().snapshot();
        assert_eq!(weight_bytes(&snapshot), Some(50_000));
        let of_heap = snapshot.segments.iter().filter(|segment| segment.device == DeviceId(1));
        let n_blocks = of_heap
            .flat_map(|segment| &segment.blocks)
            .filter(|block| block.requested_size == 80_000)
            .count();
        assert!((5..=20).contains(&n_blocks), "{n_blocks} of 20 blocks");
        // SAFETY: allocated above with this layout, and freed once.
        kept.into_iter().for_each(|block| unsafe { SAMPLED.dealloc(block, layout) });
    });
}

#[test]
fn a_heap_has_an_interval_of_its_own() {
    static SAMPLED: Heap<Marked> = Heap::with(Marked).sample_every(50_000);
    own_process::run(module_path!(), "a_heap_has_an_interval_of_its_own", LIMIT, || {
        memreel::record_history(&Recording::all().context(Context::None).min_size(300)).unwrap();
        let layouts = [301, 299].map(|bytes| Layout::from_size_align(bytes, 1).unwrap());
        for layout in layouts.into_iter().cycle().take(100_000) {
            // SAFETY: the layout has a size, and the block is freed once with it.
            unsafe { SAMPLED.dealloc(black_box(SAMPLED.alloc(layout)), layout) };
        }
        let snapshot = sound_snapshot();
        let of_size = |bytes| snapshot.device_traces[1].iter().filter(|entry| entry.size == bytes).count();
        assert!((300..2000).contains(&of_size(301)), "three events of one in 166: {}", of_size(301));
        assert_eq!(of_size(299), 0, "a size below the least");
    });
}
