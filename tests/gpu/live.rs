//! A GPU for scenarios: its streams can be kept busy, and runs are repeatable.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
};

use cudarc::driver::{CudaContext, CudaStream};
use memreel::{
    Address, Result, StreamId,
    device::{Cuda, Device, Mark},
};

use super::{replay::Stage, spin::Spin};

/// Like `Cuda`, but every mark on a stream that is not kept busy counts as passed.
/// On an idle stream a mark takes microseconds to pass, and a run must not depend
/// on that.
#[derive(Debug)]
pub(crate) struct Live {
    device: Cuda,
    context: Arc<CudaContext>,
    spin: Spin,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    streams: HashMap<StreamId, Arc<CudaStream>>,
    numbers: HashMap<StreamId, u64>,
    busy: HashSet<StreamId>,
    marks: HashMap<u64, StreamId>,
}

impl Live {
    pub(crate) fn new() -> Live {
        let context = CudaContext::new(0).unwrap();
        let spin = Spin::new(&context);
        Live { device: Cuda::new(0).unwrap(), context, spin, state: Mutex::default() }
    }

    /// Returns `n` streams: the default stream and new ones.
    pub(crate) fn streams(&self, n: usize) -> Vec<StreamId> {
        let make = |_| {
            let stream = self.context.new_stream().unwrap();
            let id = self.device.use_stream(&stream);
            self.state.lock().unwrap().streams.insert(id, stream);
            id
        };
        std::iter::once(StreamId::DEFAULT).chain((1..n).map(make)).collect()
    }

    /// Gives the streams the numbers of recorded ones, and so their order.
    pub(crate) fn number(&self, streams: &[StreamId], numbers: &[u64]) {
        self.state.lock().unwrap().numbers.extend(streams.iter().copied().zip(numbers.iter().copied()));
    }

    fn is_busy(&self, mark: Mark) -> bool {
        let state = self.state.lock().unwrap();
        state.marks.get(&mark.0).is_some_and(|stream| state.busy.contains(stream))
    }
}

impl Stage for Live {
    fn set_busy(&self, stream: StreamId) {
        let mut state = self.state.lock().unwrap();
        self.spin.start(&state.streams[&stream]);
        state.busy.insert(stream);
    }

    fn synchronize(&self) {
        self.spin.stop();
        self.state.lock().unwrap().busy.clear();
        self.device.synchronize().unwrap();
    }

    /// Whether the device itself reports the mark as passed.
    fn set_free_bytes(&self, _bytes: Option<u64>) {}
}

// SAFETY: the ranges are `Cuda`'s, which keeps the contract.
unsafe impl Device for Live {
    fn name(&self) -> String {
        self.device.name()
    }

    fn total_bytes(&self) -> u64 {
        self.device.total_bytes()
    }

    fn free_bytes(&self) -> u64 {
        self.device.free_bytes()
    }

    fn is_host_visible(&self) -> bool {
        self.device.is_host_visible()
    }

    fn segment_alloc(&self, bytes: u64) -> Result<Option<Address>> {
        self.device.segment_alloc(bytes)
    }

    unsafe fn segment_free(&self, address: Address, bytes: u64) {
        // SAFETY: the caller guarantees the same.
        unsafe { self.device.segment_free(address, bytes) }
    }

    fn range_reserve(&self, bytes: u64, page_bytes: u64) -> Result<Option<Address>> {
        self.device.range_reserve(bytes, page_bytes)
    }

    unsafe fn range_release(&self, address: Address, bytes: u64) {
        // SAFETY: the caller guarantees the same.
        unsafe { self.device.range_release(address, bytes) }
    }

    unsafe fn range_map(&self, address: Address, bytes: u64) -> Result<bool> {
        // SAFETY: the caller guarantees the same.
        unsafe { self.device.range_map(address, bytes) }
    }

    unsafe fn range_unmap(&self, address: Address, bytes: u64) {
        // SAFETY: the caller guarantees the same.
        unsafe { self.device.range_unmap(address, bytes) }
    }

    fn mark(&self, stream: StreamId) -> Result<Mark> {
        let mark = self.device.mark(stream)?;
        self.state.lock().unwrap().marks.insert(mark.0, stream);
        Ok(mark)
    }

    fn is_passed(&self, mark: Mark) -> Result<bool> {
        if !self.is_busy(mark) {
            self.device.wait(mark)?;
        }
        self.device.is_passed(mark)
    }

    fn wait(&self, mark: Mark) -> Result<()> {
        self.device.wait(mark)
    }

    unsafe fn forget(&self, mark: Mark) {
        self.state.lock().unwrap().marks.remove(&mark.0);
        // SAFETY: the caller keeps the same promise to us.
        unsafe { self.device.forget(mark) }
    }

    fn stream_number(&self, stream: StreamId) -> u64 {
        self.state.lock().unwrap().numbers.get(&stream).copied().unwrap_or(stream.handle())
    }
}
