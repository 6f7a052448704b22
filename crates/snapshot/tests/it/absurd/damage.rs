//! Damage: numbers and an order of entries, segments and blocks that no allocator writes.

use memreel_snapshot::{Action, Address, BlockState, DeviceId, Snapshot};

use crate::random::Random;

/// Changes up to twelve things of a snapshot at random.
pub(super) fn damage(snapshot: &mut Snapshot, random: &mut Random) {
    for _ in 0..=random.index(12) {
        if random.chance(3) { damage_segment(snapshot, random) } else { damage_trace(snapshot, random) }
    }
}

/// A number near another one, or one at a border of some type.
fn number(random: &mut Random, near: u64) -> u64 {
    let some = random.below(1000);
    match random.below(14) {
        0 => 0,
        1 => 1,
        2 => 511,
        3 => 1 << 20,
        4 => (1 << 31) + some,
        5 => 1 << 53,
        6 => (1 << 60) - 1,
        7 => (1 << 63) + some,
        8 => u64::MAX - random.below(3),
        9 => i64::MAX as u64,
        10 => near.wrapping_add(some),
        11 => near.wrapping_sub(some),
        12 => near.wrapping_mul(2),
        _ => near,
    }
}

fn signed(random: &mut Random, near: i64) -> i64 {
    number(random, near.cast_unsigned()).cast_signed()
}

fn damage_trace(snapshot: &mut Snapshot, random: &mut Random) {
    let n_traces = snapshot.device_traces.len();
    let trace = &mut snapshot.device_traces[random.index(n_traces)];
    if trace.is_empty() {
        return;
    }
    let (at, other) = (random.index(trace.len()), random.index(trace.len()));
    let elsewhere = trace[other];
    match random.below(11) {
        0 => trace[at].address = Address(number(random, elsewhere.address.0)),
        1 => trace[at].size = number(random, trace[at].size),
        2 => trace[at].time_us = signed(random, elsewhere.time_us),
        3 => trace[at].stream.0 = signed(random, trace[at].stream.0),
        4 => trace[at].action = random.pick(Action::ALL).to_owned().into(),
        5 => trace[at].action = None,
        6 => trace.insert(at, elsewhere),
        7 => drop(trace.remove(at)),
        8 => trace.rotate_left(at),
        9 => trace[at].address.0 = trace[at].address.0.wrapping_add(512),
        _ => trace.swap(at, other),
    }
}

fn damage_segment(snapshot: &mut Snapshot, random: &mut Random) {
    let n_segments = snapshot.segments.len();
    if n_segments == 0 {
        return;
    }
    let elsewhere = snapshot.segments[random.index(n_segments)].address;
    let segment = &mut snapshot.segments[random.index(n_segments)];
    match random.below(9) {
        0 => segment.address = Address(number(random, elsewhere.0)),
        1 => segment.total_size = number(random, segment.total_size),
        2 => segment.device = DeviceId(*random.pick(&[0, 1, 2, -1, i64::MIN, 200])),
        3 => segment.stream.0 = signed(random, segment.stream.0),
        4 => segment.is_expandable ^= true,
        5 => drop(segment.blocks.pop()),
        place => {
            if segment.blocks.is_empty() {
                return;
            }
            let at = random.index(segment.blocks.len());
            let block = &mut segment.blocks[at];
            let states = [
                Some(BlockState::ActiveAllocated),
                Some(BlockState::ActivePendingFree),
                Some(BlockState::Inactive),
                None,
            ];
            match place {
                6 => block.size = number(random, block.size),
                7 => block.requested_size = number(random, block.requested_size),
                _ => block.state = *random.pick(&states),
            }
        }
    }
}
