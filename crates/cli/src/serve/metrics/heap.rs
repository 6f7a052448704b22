//! Serves what is held as a pprof profile. The thread that reads builds it from its last reading on demand, once for
//! each reading.

#![forbid(unsafe_code)]

use std::{
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::{Duration, Instant, UNIX_EPOCH},
};

use hyper::body::Bytes;
use memreel_snapshot::{
    BlockState, DeviceId, Snapshot,
    export::{HeapPart, heap_profile},
    model::StackIndex,
};
use tokio::sync::oneshot;

use crate::run::{all::All, watched::Watched};

/// The path at which Go programs serve it.
pub(super) const PATH: &str = "/debug/pprof/heap";

/// Requests to the thread that reads.
#[derive(Clone, Debug)]
pub(super) struct Ask(Sender<oneshot::Sender<Bytes>>);

/// The questions, as the thread that looks has them.
#[derive(Debug)]
pub(super) struct HeapQuestions(Receiver<oneshot::Sender<Bytes>>);

pub(super) fn channel() -> (Ask, HeapQuestions) {
    let (asks, asked) = mpsc::channel();
    (Ask(asks), HeapQuestions(asked))
}

impl Ask {
    /// Returns the profile; `None` once nothing is watched any more.
    pub(super) async fn profile(&self) -> Option<Bytes> {
        let (answer, answered) = oneshot::channel();
        self.0.send(answer).ok()?;
        answered.await.ok()
    }
}

impl HeapQuestions {
    /// Answers requests until the pause is over.
    pub(super) fn answer_for(&self, pause: Duration, all: &All) {
        let until = Instant::now() + pause;
        let mut profile = None;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.0.recv_timeout(left) {
                // Who asked may have gone.
                Ok(answer) => _ = answer.send(profile.get_or_insert_with(|| of(all)).clone()),
                Err(mpsc::RecvTimeoutError::Timeout) => return,
                Err(mpsc::RecvTimeoutError::Disconnected) => return thread::sleep(left),
            }
        }
    }
}

/// Returns the profile of what all processes hold.
fn of(all: &All) -> Bytes {
    let held: Vec<_> = all.processes.values().map(|process| (process, process.held())).collect();
    let mut parts = Vec::new();
    for (process, (sums, snapshot)) in &held {
        for device in process.devices() {
            let n_blocks = sums.n_blocks(device.device);
            let held = of_device(snapshot, device.device).zip(n_blocks);
            let held = held.map(|((stack, bytes), n)| (stack, n, bytes)).collect();
            parts.push(HeapPart { snapshot, held, labels: labels(process, device.device, device.name) });
        }
    }
    let now_us = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_micros());
    let mut profile = Vec::new();
    // A vector takes everything.
    let _ = heap_profile(&parts, u64::try_from(now_us).unwrap_or(u64::MAX), &mut profile);
    profile.into()
}

fn labels(process: &Watched, device: DeviceId, name: String) -> Vec<(&'static str, String)> {
    let mut labels = vec![("process", process.process().to_string()), ("device", device.to_string())];
    if !name.is_empty() {
        labels.push(("device_name", name));
    }
    labels.extend(process.rank.clone().map(|rank| ("rank", rank)));
    labels
}

/// Returns the stack and the bytes of each block of a device, by address.
fn of_device(snapshot: &Snapshot, device: DeviceId) -> impl Iterator<Item = (Option<StackIndex>, u64)> {
    let segments = snapshot.segments.iter().filter(|segment| segment.device == device);
    let blocks = segments.flat_map(|segment| &segment.blocks);
    let mut blocks: Vec<_> = blocks.filter(|block| block.state.is_some_and(BlockState::is_active)).collect();
    blocks.sort_by_key(|block| block.address);
    blocks.into_iter().map(|block| (block.stack, block.requested_size))
}
