//! The order of streams that use one block, and when the block may be reused.
#![forbid(unsafe_code)]

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use cudarc::driver::{CudaEvent, CudaStream, SyncOnDrop, sys};

use crate::{allocator::Allocation, device::Cuda, event::StreamId};

/// A block and the streams that use it.
///
/// On the block's own stream all work is in order: uses of the block, its
/// reuse, and uses after that. If cudarc manages streams
/// ([`is_managing_stream_synchronization`]), another stream waits for the own
/// stream before it uses the block, and later work on the own stream waits for
/// that use. In any case the block is not handed out again before the use is
/// done.
///
/// [`is_managing_stream_synchronization`]: cudarc::driver::CudaContext::is_managing_stream_synchronization
#[derive(Debug)]
pub(super) struct Uses {
    /// `None` for a slice without elements.
    block: Option<Allocation>,
    stream: Arc<CudaStream>,
    /// The event after the latest use on another stream, which waited for the uses before it.
    elsewhere: OnceLock<CudaEvent>,
    /// Set when the device cannot mark one of the streams: the own stream then waits at the drop.
    waits_at_end: AtomicBool,
}

impl Uses {
    #[inline]
    pub(super) fn new(block: Option<Allocation>, stream: Arc<CudaStream>) -> Uses {
        Uses { block, stream, elsewhere: OnceLock::new(), waits_at_end: AtomicBool::new(false) }
    }

    pub(super) fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    pub(super) fn address(&self) -> sys::CUdeviceptr {
        self.block.as_ref().map_or(0, |block| block.address().0)
    }

    /// Names the block.
    pub(super) fn annotate(&self, name: &str) {
        if let Some(block) = &self.block {
            block.annotate(name);
        }
    }

    /// Prepares a use of the block on a stream. Drop the returned guard after the use is queued.
    pub(super) fn begin<'a>(&'a self, stream: &'a CudaStream) -> SyncOnDrop<'a> {
        let context = self.stream.context();
        let is_managed = context.is_managing_stream_synchronization();
        if let Some(event) = self.elsewhere.get().filter(|_| is_managed) {
            context.record_err(stream.wait(event));
        }
        if stream.cu_stream() == self.stream.cu_stream() {
            return SyncOnDrop::Record(None);
        }
        let is_guarded = self.record_stream(stream);
        if !is_managed {
            // The program orders its streams; only the reuse of the block is handled here.
            return if is_guarded { SyncOnDrop::Record(None) } else { SyncOnDrop::Sync(Some(stream)) };
        }
        context.record_err(stream.join(&self.stream));
        let Some(event) = self.event() else { return SyncOnDrop::Sync(Some(stream)) };
        if !is_guarded {
            self.waits_at_end.store(true, Ordering::Relaxed);
        }
        SyncOnDrop::Record(Some((event, stream)))
    }

    /// Records a stream on the block; returns false if the device does not know
    /// the stream. Such a stream may be destroyed before the block is freed.
    fn record_stream(&self, stream: &CudaStream) -> bool {
        let Some(block) = &self.block else { return true };
        let id = StreamId::from_handle(stream.cu_stream() as u64);
        let is_known = Cuda::behind(block.device()).is_some_and(|gpu| gpu.knows_stream(id));
        if is_known {
            block.record_stream(id);
        }
        is_known
    }

    fn event(&self) -> Option<&CudaEvent> {
        if self.elsewhere.get().is_none() {
            let event = self.stream.context().new_event(None).ok()?;
            let _ = self.elsewhere.set(event);
        }
        self.elsewhere.get()
    }

    /// Registers the stream with the device, then prepares a use like [`Uses::begin`].
    pub(super) fn begin_on<'a>(&'a self, stream: &'a Arc<CudaStream>) -> SyncOnDrop<'a> {
        if let Some(gpu) = self.block.as_ref().and_then(|block| Cuda::behind(block.device())) {
            gpu.use_stream(stream);
        }
        self.begin(stream)
    }
}

impl Drop for Uses {
    #[inline]
    fn drop(&mut self) {
        if let Some(event) = self.elsewhere.get().filter(|_| self.waits_at_end.load(Ordering::Relaxed)) {
            self.stream.context().record_err(self.stream.wait(event));
        }
    }
}
