//! Orders the streams that use one block, and determines when the block may be reused.
#![forbid(unsafe_code)]

use std::{cell::Cell, mem, sync::Arc};

use cudarc::driver::{CudaStream, SyncOnDrop, result, sys};
use once_cell::sync::OnceCell;

use super::{
    captures,
    elsewhere::{Elsewhere, PER_THREAD},
    kept,
};
use crate::{
    allocator::Allocation,
    device::{Cuda, Lost, OwnContext},
};
use memreel_snapshot::words::StreamId;

/// A block and the streams that use it.
///
/// On the block's own stream all work is in order: uses of the block, its reuse, and uses after that. Another stream
/// waits for the own stream and for the uses elsewhere before it uses the block, and later work on the own stream waits
/// for that use, unless the program orders its streams itself ([`disable_event_tracking`]). In any case the block is
/// not reused until the use is done.
///
/// [`disable_event_tracking`]: cudarc::driver::CudaContext::disable_event_tracking
#[derive(Debug)]
pub(super) struct Uses {
    /// `None` for a slice without elements.
    block: Option<Allocation>,
    stream: Arc<CudaStream>,
    /// Most blocks are used only on their own stream.
    elsewhere: OnceCell<Arc<Elsewhere>>,
}

thread_local! {
    /// The GPU whose slice was the source of this thread's latest copy between GPUs.
    static SOURCE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The way in which a use got the address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    /// A cudarc function that reads.
    Reader,
    /// A cudarc function that writes.
    Writer,
    /// A kernel argument, through which the kernel may write.
    Argument,
}

impl Uses {
    #[inline]
    pub(super) fn new(block: Option<Allocation>, stream: Arc<CudaStream>) -> Uses {
        Uses { block, stream, elsewhere: OnceCell::new() }
    }

    pub(super) fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    fn address(&self) -> sys::CUdeviceptr {
        self.block.as_ref().map_or(0, |block| block.address().0)
    }

    /// Gives the block a name.
    pub(super) fn annotate(&self, name: &str) {
        if let Some(block) = &self.block {
            block.annotate(name);
        }
    }

    /// Prepares a use of the block on a stream. Returns the address at an offset, and a guard to drop after the use is
    /// queued. The address is null if the driver cannot order anything; it then refuses the use too.
    ///
    /// # Panics
    /// If the stream belongs to a context that is not the primary one of its GPU.
    #[inline]
    pub(super) fn begin<'a>(
        &'a self,
        stream: &'a CudaStream,
        offset_bytes: u64,
        by: By,
    ) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
        let is_own = self.is_own(stream);
        let is_plain = is_own && self.elsewhere.get().is_none() && !captures::is_any();
        let is_copied = || match by {
            By::Reader => self.is_copied_elsewhere(),
            By::Writer => SOURCE.get().is_some(),
            By::Argument => false,
        };
        if is_plain && !is_copied() {
            return (self.address() + offset_bytes, SyncOnDrop::Record(None));
        }
        match self.begin_slowly(stream, is_own, by) {
            Ok(guard) => (self.address() + offset_bytes, guard),
            Err(Lost) => (0, SyncOnDrop::Record(None)),
        }
    }

    /// Returns true for the block's own stream. Streams of two contexts can have the same handle: null.
    #[inline]
    fn is_own(&self, stream: &CudaStream) -> bool {
        let is_context_own = || stream.context().cu_ctx() == self.stream.context().cu_ctx();
        stream.cu_stream() == self.stream.cu_stream()
            && (std::ptr::eq(stream, &*self.stream) || is_context_own())
    }

    /// Returns true if a cudarc function works in a context other than the stream's. Its copy between GPUs passes the
    /// source's own stream, but queues the copy on a stream that the source does not see.
    #[inline]
    fn is_copied_elsewhere(&self) -> bool {
        let own = self.stream.context().cu_ctx();
        result::ctx::get_current().is_ok_and(|current| current.is_some_and(|context| context != own))
    }

    #[inline(never)]
    fn begin_slowly<'a>(
        &'a self,
        stream: &'a CudaStream,
        is_own: bool,
        by: By,
    ) -> Result<SyncOnDrop<'a>, Lost> {
        assert!(stream.context().is_primary(), "{NOT_PRIMARY}");
        let Some((block, gpu)) = self.block.as_ref().and_then(|block| Some((block, gpu_of(block)?))) else {
            return Ok(SyncOnDrop::Record(None));
        };
        let writes = by != By::Reader;
        let unseen = match is_own && !writes && self.is_copied_elsewhere() {
            true => Some(OwnContext::of_current()?.expect(NOT_PRIMARY)),
            false => None,
        };
        // Everything below may make another context current.
        let _entered = gpu.enter().map_err(|_| Lost)?;
        let own_context = gpu.own_context()?;
        let elsewhere =
            self.elsewhere.get_or_init(|| Arc::new(Elsewhere::new(own_context.clone(), &self.stream)));
        // While cudarc queues a copy between GPUs, the source's context is current. A default stream for the copy is
        // then that context's, not the one whose handle the target gets.
        if let Some(context) = unseen {
            SOURCE.set(Some(gpu.ordinal()));
            elsewhere.begin_on_default(own_context, false)?;
            elsewhere.add_unseen(own_context.clone(), false);
            elsewhere.add_unseen(context, false);
        }
        if by == By::Writer
            && let Some(source) = SOURCE.take()
            && stream.cu_stream() as u64 <= PER_THREAD
        {
            let context = OwnContext::open(source)?;
            elsewhere.begin_on_default(&context, true)?;
            elsewhere.add_unseen(context, true);
        }
        if is_own {
            if elsewhere.begin_own(writes)? {
                kept::keep(elsewhere, block);
            }
            return Ok(SyncOnDrop::Record(None));
        }
        let is_ordered = self.stream.context().is_event_tracking();
        let begun = elsewhere.begin(stream, is_ordered, writes)?;
        if begun.is_captured {
            kept::keep(elsewhere, block);
        }
        let id = markable(gpu, stream);
        match id {
            // A free waits for it only if it is not part of a graph.
            Some(id) if begun.is_captured && !is_ordered => block.record_stream(id),
            Some(id) if !begun.is_captured => block.record_use(id),
            _ => {}
        }
        let is_marked = id.is_some() && !begun.is_captured;
        Ok(match (is_ordered, is_marked) {
            (true, _) => begun.note(is_marked),
            (false, true) => SyncOnDrop::Record(None),
            (false, false) => begun.wait(),
        })
    }

    /// Registers the stream with the device, then prepares a use like [`Uses::begin`].
    pub(super) fn begin_on<'a>(
        &'a self,
        stream: &'a Arc<CudaStream>,
        offset_bytes: u64,
    ) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
        if let Some(gpu) = self.block.as_ref().and_then(gpu_of) {
            gpu.use_stream(stream);
        }
        self.begin(stream, offset_bytes, By::Argument)
    }
}

const NOT_PRIMARY: &str = "memory of memreel can be used in the primary context of a GPU only, which \
                           `CudaContext::new` returns";

fn gpu_of(block: &Allocation) -> Option<&Cuda> {
    Cuda::behind(block.device())
}

/// Returns the id of a stream that the device can mark when the block is freed. Others may be destroyed before the
/// free, or belong to another GPU or to one of many threads.
fn markable(gpu: &Cuda, stream: &CudaStream) -> Option<StreamId> {
    let id = StreamId::from_handle(stream.cu_stream() as u64);
    let is_known = gpu.is_primary(stream.context()) && id.handle() != PER_THREAD && gpu.knows_stream(id);
    is_known.then_some(id)
}

impl Drop for Uses {
    #[inline]
    fn drop(&mut self) {
        if self.elsewhere.get().is_some() {
            self.end();
        }
    }
}

impl Uses {
    /// Waits for the uses that the allocator does not wait for. Without the driver, the block is never reused.
    #[inline(never)]
    fn end(&mut self) {
        let Some(elsewhere) = self.elsewhere.take() else { return };
        let entered = self.block.as_ref().and_then(gpu_of).and_then(|gpu| gpu.enter().ok());
        if entered.is_none() || elsewhere.end().is_err() {
            mem::forget(self.block.take());
        }
        self.block = self.block.take().and_then(|block| elsewhere.keep(block));
        // Its events must be destroyed in this context.
        drop(elsewhere);
        drop(entered);
    }
}
