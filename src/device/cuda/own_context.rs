//! Handles to primary contexts that only memreel uses, and the program's streams seen through them.
//!
//! cudarc keeps two things in each `CudaContext`, not in the driver's context behind it: an error that the next call
//! returns *instead of doing its work*, and the number of streams, without which its guards record no event. Any thread
//! can change both at any time. Work must be ordered nevertheless, so memreel orders it through its own `CudaContext`,
//! which only sees errors of memreel's calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use cudarc::driver::{CudaContext, CudaEvent, CudaStream, result, sys};

use super::driver::Answer;
use crate::process::fork::{Level, register_static};

/// Work whose state is unknown because the driver fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost;

/// A handle to a device's primary context.
#[derive(Debug)]
pub(crate) struct OwnContext {
    context: Arc<CudaContext>,
    /// A stream without work. While it lives, cudarc's guards record their events.
    _stream: Option<Arc<CudaStream>>,
}

/// The handles in use, at most one for each device.
static OPEN: Mutex<Vec<Weak<OwnContext>>> = Mutex::new(Vec::new());

/// Connects the list of handles to forks of the process.
pub(super) fn survive_forks() {
    register_static(Level::Device, |held| held.lock_static(&OPEN));
}

fn open() -> MutexGuard<'static, Vec<Weak<OwnContext>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OwnContext {
    /// Returns the handle to a device's primary context.
    pub(crate) fn open(ordinal: usize) -> Result<Arc<OwnContext>, Lost> {
        if let Some(found) = OwnContext::find(&open(), ordinal) {
            return Ok(found);
        }
        // The driver may take long, so no lock is held. Another thread may be faster; its handle is used then.
        let made = OwnContext::new(ordinal).map_err(|_| Lost)?;
        let mut open = open();
        if let Some(found) = OwnContext::find(&open, ordinal) {
            drop(open);
            return Ok(found);
        }
        open.retain(|old| old.strong_count() > 0);
        open.push(Arc::downgrade(&made));
        Ok(made)
    }

    fn find(open: &[Weak<OwnContext>], ordinal: usize) -> Option<Arc<OwnContext>> {
        open.iter().filter_map(Weak::upgrade).find(|found| found.context.ordinal() == ordinal)
    }

    fn new(ordinal: usize) -> Answer<Arc<OwnContext>> {
        let before = result::ctx::get_current()?;
        let made = OwnContext::make(ordinal);
        if let Some(before) = before {
            // SAFETY: it was current when this began.
            unsafe { result::ctx::set_current(before)? };
        }
        made
    }

    /// Creates the context, which is then current.
    fn make(ordinal: usize) -> Answer<Arc<OwnContext>> {
        let context = CudaContext::new(ordinal)?;
        // Otherwise the first stream waits for all work of the context.
        // SAFETY: no slice of cudarc is made with this context.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().ok();
        // SAFETY: as above.
        unsafe { context.enable_event_tracking() };
        Ok(Arc::new(OwnContext { context, _stream: stream }))
    }

    /// Returns the handle to the context that is current on this thread; `None` if it is not a primary context.
    pub(crate) fn of_current() -> Result<Option<Arc<OwnContext>>, Lost> {
        let current = result::ctx::get_current().map_err(|_| Lost)?.ok_or(Lost)?;
        let mut device = 0;
        // SAFETY: the pointer is to a live value.
        unsafe { sys::cuCtxGetDevice(&raw mut device).result().map_err(|_| Lost)? };
        // The driver's devices are their ordinals.
        let found = OwnContext::open(usize::try_from(device).map_err(|_| Lost)?)?;
        Ok((found.context.cu_ctx() == current).then_some(found))
    }

    /// Returns the context's default stream.
    pub(crate) fn default_stream(&self) -> Arc<CudaStream> {
        self.context.default_stream()
    }

    /// Returns an event for streams of the context; `None` if the driver fails or guards would not record it.
    pub(crate) fn event(&self) -> Option<CudaEvent> {
        let made = self.context.new_event(None).or_else(|error| {
            // The error may be a guard's.
            self.finish().map_err(|Lost| error)?;
            self.context.new_event(None)
        });
        made.ok().filter(|_| self.context.is_managing_stream_synchronization())
    }

    /// Waits for all work of the context if a guard could not record its event.
    pub(crate) fn settle(&self) -> Result<(), Lost> {
        if self.context.check_err().is_ok() { Ok(()) } else { self.finish() }
    }

    /// Waits until all work that is queued in the context is done.
    pub(crate) fn finish(&self) -> Result<(), Lost> {
        // A call may return the error of a guard instead of waiting.
        let is_done = (0..4).any(|_| self.context.synchronize().is_ok());
        if is_done { Ok(()) } else { Err(Lost) }
    }
}

/// A stream of the program, seen through memreel's own context.
#[derive(Debug)]
pub(crate) struct Twin {
    stream: Arc<CudaStream>,
    context: Arc<OwnContext>,
}

impl Twin {
    pub(crate) fn new(context: Arc<OwnContext>, of: &CudaStream) -> Twin {
        // SAFETY: the handle is a stream of this primary context, and `while_alive` lends it only while a stream
        // with the handle is alive. Without an owner, dropping the twin does not destroy it.
        let stream = unsafe { context.context.wrap_borrowed_stream(of.cu_stream()) };
        Twin { stream, context }
    }

    pub(crate) fn context(&self) -> &OwnContext {
        &self.context
    }

    /// Makes a stream wait for an event of a context. If the driver refuses, or returns the error of a guard, the host
    /// waits for all work of both contexts.
    pub(crate) fn wait(&self, stream: &CudaStream, event: &CudaEvent, of: &OwnContext) -> Result<(), Lost> {
        if self.while_alive(stream).wait(event).is_ok() {
            return Ok(());
        }
        of.finish()?;
        self.context.finish()
    }

    pub(crate) fn is_of(&self, stream: &CudaStream) -> bool {
        let has_context = self.stream.context().cu_ctx() == stream.context().cu_ctx();
        has_context && self.stream.cu_stream() == stream.cu_stream()
    }

    /// Returns the stream in memreel's own context, while it is alive.
    ///
    /// # Panics
    /// If the twin belongs to another stream.
    pub(crate) fn while_alive<'a>(&'a self, stream: &'a CudaStream) -> &'a CudaStream {
        assert!(self.is_of(stream), "a twin is used for another stream");
        &self.stream
    }

    /// Returns true if work on the stream becomes part of a graph.
    pub(crate) fn is_capturing(&self, stream: &CudaStream) -> Result<bool, Lost> {
        let twin = self.while_alive(stream);
        let none = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let status = twin.capture_status().or_else(|_| {
            self.context.finish()?;
            // The legacy stream of a context in which another is captured has no status.
            Ok(twin.capture_status().unwrap_or(none))
        })?;
        Ok(status != none)
    }
}
