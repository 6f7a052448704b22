//! What must be in a snapshot, from nothing but the sizes that the threads allocate one after the other.

use std::collections::{BTreeMap, BTreeSet};

use memreel::{Action, BlockState, Snapshot};

use crate::crash::{N_LIVE, N_SIZES, N_THREADS, freed, size_bytes};

/// Checks that the events of each thread are whole up to the last acknowledged one, and that the blocks in use are
/// those that these events leave.
pub(crate) fn check(snapshot: &Snapshot, acknowledged: &[u64], what: &str) {
    let who: BTreeMap<u64, (u64, u64)> = (0..N_THREADS)
        .flat_map(|thread| (0..N_SIZES).map(move |number| (size_bytes(thread, number), (thread, number))))
        .collect();
    let mut numbers: Vec<Vec<u64>> = vec![Vec::new(); N_THREADS as usize];
    for entry in snapshot.device_traces[0].iter().filter(|entry| entry.action == Some(Action::Alloc)) {
        let (thread, number) = who[&entry.size];
        numbers[thread as usize].push(number);
    }
    let mut live: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); N_THREADS as usize];
    let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
    for block in blocks.filter(|block| block.state != Some(BlockState::Inactive)) {
        let (thread, number) = who[&block.requested_size];
        assert!(live[thread as usize].insert(number), "{what}: {number} of thread {thread} is live twice");
    }
    for (thread, numbers) in numbers.iter().enumerate() {
        let what = format!("{what}: thread {thread}");
        assert!(numbers.is_sorted_by(|a, b| *b == a + 1), "{what}: its events have gaps");
        // In a small ring, another thread's events may have replaced all of this one's.
        if let Some(last) = numbers.last() {
            let n = last + 1;
            let n_acknowledged = acknowledged[thread];
            assert!(n >= n_acknowledged, "{what}: {n_acknowledged} acknowledged, {n} recovered");
            let whole = left(n);
            // Killed between the allocation and the free that follows.
            let before = left(n - 1).into_iter().chain([last.to_owned()]).collect();
            assert!(
                live[thread] == whole || live[thread] == before,
                "{what}: live are {:?} and not {whole:?} after {n}",
                live[thread]
            );
        }
    }
}

/// Returns the allocations that are live after the first `n` of a thread.
fn left(n: u64) -> BTreeSet<u64> {
    let mut live = Vec::new();
    for number in 0..n {
        live.push(number);
        if live.len() > N_LIVE {
            live.remove(freed(number));
        }
    }
    live.into_iter().collect()
}
