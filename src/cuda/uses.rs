//! Uses of a block on other streams than its own: who waits for whom, and when it may be reused.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use cudarc::driver::{CudaEvent, CudaStream, SyncOnDrop, sys};

use crate::{allocator::Allocation, device::Cuda, event::StreamId};

/// A block and the streams that touch it.
///
/// On its own stream everything is in order: work, reuse of the block, work on
/// what came into it. Another stream waits for that order when it begins, and
/// what follows on the own stream waits for it, as far as cudarc manages
/// streams at all ([`is_managing_stream_synchronization`]); and the block is
/// not handed out again before it is done.
///
/// [`is_managing_stream_synchronization`]: cudarc::driver::CudaContext::is_managing_stream_synchronization
#[derive(Debug)]
pub(super) struct Uses {
    /// None for a slice without elements.
    block: Option<Allocation>,
    stream: Arc<CudaStream>,
    /// After the latest use on another stream, which waited for those before it.
    elsewhere: OnceLock<CudaEvent>,
    /// The device could not mark one of the streams, so the own stream waits instead.
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

    /// The block is about to be used on a stream; what comes back is dropped
    /// when that use is queued.
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
            // The program orders its streams; only the reuse of the block is ours.
            return if is_guarded { SyncOnDrop::Record(None) } else { SyncOnDrop::Sync(Some(stream)) };
        }
        context.record_err(stream.join(&self.stream));
        let Some(event) = self.event() else { return SyncOnDrop::Sync(Some(stream)) };
        if !is_guarded {
            self.waits_at_end.store(true, Ordering::Relaxed);
        }
        SyncOnDrop::Record(Some((event, stream)))
    }

    /// Tells the allocator of a stream; false when the device does not know it.
    /// A stream that nobody introduced may be gone when the block is freed.
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

    /// As [`Uses::begin`] on a stream that is introduced first.
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
