//! Memory that is free on several streams, and reserved memory that grows.

use std::sync::Arc;

use memreel::{Allocation, Reel, device::Simulated, recorder::Recording};
use memreel_snapshot::{
    DeviceId, Snapshot, StreamId,
    analysis::{
        DeviceHistory, Site, SiteFinding,
        oom::{Cause, CauseKind, Explanation, Verdict},
    },
};

use super::questions::MIB;

const STEPS: u64 = 8;

fn reel(device_mib: u64) -> Reel {
    let device = Arc::new(Simulated::new(device_mib * MIB));
    Reel::builder().device(device).history(Recording::all()).build().unwrap()
}

#[inline(never)]
fn pack(reel: &Reel, bytes: u64, stream: u64) -> Allocation {
    reel.allocators()[0].alloc(bytes, StreamId(stream as i64)).unwrap()
}

/// Steps that need 200 MiB on the default stream, and each of them `n` blocks of 64 MiB on streams that `stream` names by the
/// step and the block.
fn steps(n: u64, stream: impl Fn(u64, u64) -> u64) -> Snapshot {
    let reel = reel(1 << 16);
    let _weights = reel.alloc(300 * MIB).unwrap();
    for step in 0..STEPS {
        let scope = reel.scope("step");
        drop(reel.alloc(200 * MIB).unwrap());
        let _packed: Vec<Allocation> = (0..n).map(|at| pack(&reel, 64 * MIB, stream(step, at))).collect();
        drop(scope);
    }
    // The last step is over.
    drop(reel.alloc(2 * MIB).unwrap());
    reel.snapshot()
}

fn name(history: &DeviceHistory<'_>, site: &Site) -> String {
    let Site::Stack(stack) = site else { panic!("{site:?}") };
    history.shown_frames().innermost(*stack).unwrap().name.to_string()
}

#[test]
fn streams_that_are_made_in_each_step_keep_its_memory() {
    let file = steps(2, |step, at| 100 + step * 2 + at);
    let history = DeviceHistory::new(&file, DeviceId(0));
    let idle = history.idle_streams(history.end());
    let [idle] = &idle[..] else { panic!("{idle:?}") };
    assert_eq!((idle.n_streams, idle.n_segments), (16, 16));
    assert_eq!((idle.free_bytes, idle.reserved_bytes), (16 * 64 * MIB, 16 * 64 * MIB));
    assert_eq!(idle.most_in_use_bytes, 2 * 64 * MIB);
    assert!(name(&history, &idle.site).contains("pack"));
    let text = idle.finding("pack (a.py:1)");
    assert!(
        text.starts_with("16 streams keep 64.00 MiB of free memory each, allocated by pack (a.py:1), "),
        "{text}"
    );
    // The default stream has what a step needs, and is none of them.
    let uses = history.stream_uses(history.end());
    assert_eq!(uses.len(), 17);
    assert_eq!((uses[0].stream, uses[0].sum.free_bytes), (StreamId(0), 200 * MIB));
    assert_eq!((uses[0].sum.block_bytes, uses[0].sum.empty_bytes), (300 * MIB, 200 * MIB));

    let growth = history.reserved_growth().expect("it grew");
    assert_eq!((growth.n_repeats, growth.bytes), (7, 7 * 2 * 64 * MIB));
    assert_eq!((growth.n_segments, growth.site_bytes), (14, 14 * 64 * MIB));
    assert!(name(&history, &growth.site).contains("pack"));
    let text = growth.finding("pack (a.py:1)");
    let expected =
        "reserved memory grew by 896.00 MiB beyond the most that was in use, 128.00 MiB in each of 7 steps: ";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn streams_that_are_used_again_or_together_are_no_finding() {
    // Two streams for all steps; four that work at once; three, each for another call.
    let again = steps(2, |_, at| 100 + at);
    let together = steps(4, |_, at| 100 + at);
    for file in [again, together] {
        let history = DeviceHistory::new(&file, DeviceId(0));
        assert_eq!(history.idle_streams(history.end()), []);
        assert_eq!(history.reserved_growth(), None);
    }
    // One stream after the other, over and over: more is kept than is ever in use, and nothing grows.
    let in_turns = steps(1, |step, _| 100 + step % 4);
    let history = DeviceHistory::new(&in_turns, DeviceId(0));
    let idle = history.idle_streams(history.end());
    assert_eq!((idle.len(), idle[0].n_streams, idle[0].most_in_use_bytes), (1, 4, 64 * MIB));
    assert_eq!(history.reserved_growth(), None);
}

/// Calls on one stream after the other, each of which leaves a small block in its segment, until a request fails.
fn failed(n: u64, request: u64) -> Snapshot {
    let reel = reel(512);
    let _weights = reel.alloc(512 * MIB - n * 64 * MIB).unwrap();
    let mut kept = Vec::new();
    for at in 0..n {
        drop(pack(&reel, 64 * MIB, 100 + at));
        kept.push(checksum(&reel, 2 * MIB, 100 + at));
    }
    reel.allocators()[0].alloc(request, StreamId(99)).unwrap_err();
    reel.snapshot()
}

#[inline(never)]
fn checksum(reel: &Reel, bytes: u64, stream: u64) -> Allocation {
    reel.allocators()[0].alloc(bytes, StreamId(stream as i64)).unwrap()
}

fn elsewhere(file: &Snapshot) -> Option<(usize, Cause)> {
    let history = DeviceHistory::new(file, DeviceId(0));
    let causes = Explanation::new(&history, history.oom().unwrap()).causes();
    let is = |cause: &Cause| cause.kind == CauseKind::Unusable(Verdict::Elsewhere);
    causes.iter().position(is).map(|at| (at, causes[at].clone()))
}

#[test]
fn streams_are_the_cause_of_a_failure() {
    let (at, cause) = elsewhere(&failed(6, 64 * MIB)).expect("a cause");
    assert_eq!((at, cause.bytes), (0, 6 * 62 * MIB));
    let finding = &cause.finding;
    assert!(finding.starts_with("6 streams keep 62.00 MiB of free memory each, allocated by "), "{finding}");
    assert!(finding.contains("pack") && finding.contains("; 2.00 MiB blocks from "), "{finding}");
    assert!(
        finding.contains("checksum") && finding.contains(" keep 6 segments with 372.00 MiB free"),
        "{finding}"
    );
    let advice = cause.advice.expect("an advice");
    assert!(advice.starts_with("create the streams once and reuse them"), "{advice}");
    // What would not have been enough is a minor cause.
    let (at, cause) = elsewhere(&failed(6, 500 * MIB)).expect("a cause");
    assert!(at > 0 && cause.finding.starts_with("6 streams keep"), "{cause:?}");
    // Two streams are those of a program that has different work.
    let (_, cause) = elsewhere(&failed(2, 64 * MIB)).expect("a cause");
    assert!(
        cause.finding.starts_with("124.00 MiB on 2 other streams is free, which this request cannot use")
    );
}
