//! What random programs are made of: requests, settings, and how often they come.

use memreel::allocator::PoolOptions;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// Numbers that pick one of what there is are taken modulo how many there are.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Alloc {
        bytes: u64,
        stream: u64,
    },
    Free(usize),
    RecordStream(usize, u64),
    Busy(u64),
    Idle(u64),
    EmptyCache,
    Settings(String),
    Limit(Option<u64>),
    Fraction(f64),
    Refuse(u32),
    CreatePool(PoolOptions),
    CreateCapturePool,
    /// With the one stream that is routed there, or all of the thread's.
    BeginPool(usize, Option<u64>),
    EndPool(usize),
    ReleasePool(usize),
    EmptyPool(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) device_bytes: u64,
    pub(crate) conf: String,
    pub(crate) requests: Vec<Request>,
}

fn conf() -> impl Strategy<Value = String> {
    let mb = |name: &'static str, sizes: &'static [u64]| {
        prop::sample::select(sizes).prop_map(move |mb| format!("{name}:{mb}"))
    };
    let divisions = prop::sample::select(
        &["1", "2", "4", "8", "64", "[1:8,2:4,64:2,256:1,>:4]", "[1:0,4:2,>:8]", "[>:2]"][..],
    );
    let threshold = prop::sample::select(&["0.1", "0.3", "0.5", "0.8", "0.95"][..]);
    let fraction = prop::sample::select(&["0.3", "0.6", "0.9", "1.0"][..]);
    let options = (
        prop::option::weighted(0.6, any::<bool>()),
        prop::option::weighted(0.15, mb("large_segment_size_mb", &[11, 12, 20, 25, 40])),
        prop::option::weighted(0.4, mb("max_split_size_mb", &[20, 21, 25, 40, 64])),
        prop::option::weighted(0.3, mb("max_non_split_rounding_mb", &[20, 22, 40])),
        prop::option::weighted(0.3, divisions),
        prop::option::weighted(0.3, threshold),
        prop::option::weighted(0.1, fraction),
    );
    options.prop_map(|(expandable, large, split, rounding, divisions, threshold, fraction)| {
        let expandable =
            expandable.map(|on| format!("expandable_segments:{}", if on { "True" } else { "False" }));
        let divisions = divisions.map(|list| format!("roundup_power2_divisions:{list}"));
        let threshold = threshold.map(|t| format!("garbage_collection_threshold:{t}"));
        let fraction = fraction.map(|f| format!("per_process_memory_fraction:{f}"));
        let all = [expandable, large, split, rounding, divisions, threshold, fraction];
        all.into_iter().flatten().collect::<Vec<_>>().join(",")
    })
}

/// Requests of a kind of program: what it does more or less of.
fn request(taste: Taste) -> impl Strategy<Value = Request> {
    let Taste { streams, pools, changes } = taste;
    let bytes = prop_oneof![
        4 => 1..4096_u64,
        4 => 4096..2 * MIB,
        4 => MIB..12 * MIB,
        4 => 10 * MIB..60 * MIB,
        2 => prop::sample::select(vec![
            512, MIB - 512, MIB, MIB + 1, 10 * MIB - 512, 10 * MIB - 511, 10 * MIB, 19 * MIB, 20 * MIB,
            21 * MIB, 25 * MIB, 40 * MIB, 41 * MIB, 64 * MIB, 150 * MIB,
        ]),
    ];
    let limit = prop::option::weighted(0.8, (0..200_u64).prop_map(|mb| mb * MIB));
    let options = (any::<bool>(), any::<bool>())
        .prop_map(|(use_on_oom, no_split)| PoolOptions::default().use_on_oom(use_on_oom).no_split(no_split));
    prop_oneof![
        200 => (bytes, 0..3_u64).prop_map(|(bytes, stream)| Request::Alloc { bytes, stream }),
        130 => any::<usize>().prop_map(Request::Free),
        streams * 3 => (any::<usize>(), 0..5_u64).prop_map(|(i, stream)| Request::RecordStream(i, stream)),
        streams => (0..5_u64).prop_map(Request::Busy),
        streams => (0..5_u64).prop_map(Request::Idle),
        16 => Just(Request::EmptyCache),
        changes * 2 => conf().prop_map(Request::Settings),
        changes => limit.prop_map(Request::Limit),
        changes => prop::sample::select(&[0.0, 0.25, 0.5, 0.75, 1.0][..]).prop_map(Request::Fraction),
        changes * 2 => (1..4_u32).prop_map(Request::Refuse),
        pools => options.prop_map(Request::CreatePool),
        pools => Just(Request::CreateCapturePool),
        pools * 4 => (any::<usize>(), prop::option::of(0..3_u64)).prop_map(|(i, on)| Request::BeginPool(i, on)),
        pools * 4 => any::<usize>().prop_map(Request::EndPool),
        pools * 4 => any::<usize>().prop_map(Request::ReleasePool),
        pools * 2 => any::<usize>().prop_map(Request::EmptyPool),
    ]
}

/// How often a program records streams, uses private pools, and changes the
/// rules, beside 200 allocations and 130 frees.
#[derive(Clone, Copy)]
struct Taste {
    streams: u32,
    pools: u32,
    changes: u32,
}

pub(crate) fn program() -> impl Strategy<Value = Program> {
    let requests =
        |streams, pools, changes| prop::collection::vec(request(Taste { streams, pools, changes }), 1..160);
    let requests = prop_oneof![requests(1, 1, 1), requests(15, 1, 5), requests(8, 12, 3), requests(5, 3, 20)];
    let device = prop::sample::select(&[40, 100, 150, 200, 400, 2000][..]).prop_map(|mb| mb * MIB);
    (device, conf(), requests).prop_map(|(device_bytes, conf, requests)| Program {
        device_bytes,
        conf,
        requests,
    })
}
