//! The uses of one block on streams other than its own, and what waits for them.
#![forbid(unsafe_code)]

use std::{
    mem,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, ThreadId},
};

use cudarc::driver::{CudaEvent, CudaStream, SyncOnDrop};
use elsa::sync::FrozenVec;

use super::captures;
use crate::{
    allocator::Allocation,
    device::{Cuda, Lost, OwnContext, Twin},
};

/// The uses of a block on other streams.
#[derive(Debug)]
pub(super) struct Elsewhere {
    own: Arc<CudaStream>,
    twin: Twin,
    /// Recorded on the block's own stream before a use on another one.
    own_event: Option<CudaEvent>,
    /// One for each other stream. None is ever removed, because guards refer to its event.
    points: FrozenVec<Box<Point>>,
    /// Contexts in which copies between GPUs use the block on unknown streams.
    unseen: FrozenVec<Box<Unseen>>,
    /// Set when a graph uses the block, which then remains in use as long as the graph.
    is_kept: AtomicBool,
    /// The block, if its slice was dropped before the graph.
    kept: Mutex<Option<Allocation>>,
}

/// The latest use on one other stream.
#[derive(Debug)]
struct Point {
    twin: Twin,
    /// The thread of the per-thread default stream, which differs on each thread.
    thread: Option<ThreadId>,
    /// Recorded after each use. Without an event, guards wait until the use is done.
    event: Option<CudaEvent>,
    /// Set when the allocator cannot mark the stream: the block's own stream then waits for it at the drop.
    waits_at_end: AtomicBool,
    /// The number of the latest capture when the latest use was captured; 0 if that use is not part of a graph.
    capture: AtomicU64,
}

/// A context in which unknown streams use the block.
#[derive(Debug)]
struct Unseen {
    context: Arc<OwnContext>,
    writes: bool,
}

/// The state of a use on another stream before it is queued.
#[derive(Debug)]
pub(super) struct Begun<'a> {
    point: &'a Point,
    stream: &'a CudaStream,
    /// Whether the use becomes part of a graph.
    pub(super) is_captured: bool,
}

/// The handle of the per-thread default stream.
pub(super) const PER_THREAD: u64 = 2;

impl Elsewhere {
    pub(super) fn new(context: Arc<OwnContext>, own: &Arc<CudaStream>) -> Elsewhere {
        Elsewhere {
            own: own.clone(),
            own_event: context.event(),
            twin: Twin::new(context, own),
            points: FrozenVec::new(),
            unseen: FrozenVec::new(),
            is_kept: AtomicBool::new(false),
            kept: Mutex::default(),
        }
    }

    /// Orders a use on the block's own stream after those on others. Returns true if it becomes part of a graph.
    pub(super) fn begin_own(&self, writes: bool) -> Result<bool, Lost> {
        let is_captured = self.twin.is_capturing(&self.own)?;
        self.wait_for_all(&self.twin, &self.own, is_captured, writes)?;
        Ok(is_captured)
    }

    /// Prepares the launch, on a stream, of a graph that may write to the block. Drop the guard after the launch.
    pub(super) fn begin_launch<'a>(&'a self, stream: &'a CudaStream) -> Result<SyncOnDrop<'a>, Lost> {
        if self.twin.is_of(stream) {
            return self.begin_own(true).map(|_| SyncOnDrop::Record(None));
        }
        self.begin(stream, true, true).map(|begun| begun.note(false))
    }

    /// Keeps the block in use as long as a graph that uses it.
    pub(super) fn set_kept(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// Takes the block of a dropped slice if a graph uses it; returns it if none does.
    pub(super) fn keep(&self, block: Allocation) -> Option<Allocation> {
        if !self.is_kept.load(Ordering::Relaxed) {
            return Some(block);
        }
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).replace(block)
    }

    /// Prepares a use on another stream; if `is_ordered`, after all earlier uses.
    pub(super) fn begin<'a>(
        &'a self,
        stream: &'a CudaStream,
        is_ordered: bool,
        writes: bool,
    ) -> Result<Begun<'a>, Lost> {
        let point = self.point(stream)?;
        let is_captured = point.twin.is_capturing(stream)?;
        let twin = point.twin.while_alive(stream);
        if !is_ordered {
            return Ok(Begun { point, stream: twin, is_captured });
        }
        self.wait_for_all(&point.twin, stream, is_captured, writes)?;
        let own_is_captured = self.wait_for_own(&point.twin, stream, is_captured)?;
        Ok(Begun { point, stream: twin, is_captured: is_captured || own_is_captured })
    }

    /// Records that an unknown stream of a context uses the block.
    pub(super) fn add_unseen(&self, context: Arc<OwnContext>, writes: bool) {
        let is_known = |known: &Unseen| Arc::ptr_eq(&known.context, &context) && known.writes == writes;
        if !self.unseen.iter().any(is_known) {
            self.unseen.push(Box::new(Unseen { context, writes }));
        }
    }

    /// Makes the default stream of a context wait for all uses that must precede a use on it.
    pub(super) fn begin_on_default(&self, context: &Arc<OwnContext>, writes: bool) -> Result<(), Lost> {
        let stream = context.default_stream();
        let twin = Twin::new(context.clone(), &stream);
        self.wait_for_all(&twin, &stream, false, writes)?;
        self.wait_for_own(&twin, &stream, false).map(drop)
    }

    /// Makes the block's own stream wait for the uses that the allocator does not wait for.
    pub(super) fn end(&self) -> Result<(), Lost> {
        let is_captured = self.twin.is_capturing(&self.own)?;
        for point in self.points.iter().filter(|point| point.waits_at_end.load(Ordering::Relaxed)) {
            point.hold(&self.twin, &self.own, is_captured)?;
        }
        self.unseen.iter().try_for_each(|unseen| unseen.context.finish())
    }

    fn point(&self, stream: &CudaStream) -> Result<&Point, Lost> {
        let is_per_thread = stream.cu_stream() as u64 == PER_THREAD;
        let thread = is_per_thread.then(|| thread::current().id());
        let is_its = |point: &&Point| point.thread == thread && point.twin.is_of(stream);
        if let Some(point) = self.points.iter().find(is_its) {
            return Ok(point);
        }
        let context = OwnContext::open(stream.context().ordinal())?;
        let event = context.event();
        let twin = Twin::new(context, stream);
        let (waits_at_end, capture) = (AtomicBool::new(false), AtomicU64::new(0));
        let point = Point { twin, thread, event, waits_at_end, capture };
        Ok(self.points.push_get(Box::new(point)))
    }

    fn wait_for_all(
        &self,
        twin: &Twin,
        stream: &CudaStream,
        is_captured: bool,
        writes: bool,
    ) -> Result<(), Lost> {
        self.points.iter().try_for_each(|point| point.hold(twin, stream, is_captured))?;
        let mut conflicting = self.unseen.iter().filter(|unseen| writes || unseen.writes);
        conflicting.try_for_each(|unseen| unseen.context.finish())
    }

    /// Orders another stream after the block's own. Returns true if that makes it part of a graph.
    fn wait_for_own(&self, twin: &Twin, stream: &CudaStream, is_captured: bool) -> Result<bool, Lost> {
        let own_is_captured = self.twin.is_capturing(&self.own)?;
        let own = self.twin.while_alive(&self.own);
        let is_recorded = |event: &&CudaEvent| event.record(own).is_ok();
        // A stream under capture cannot wait for work that is not part of the graph.
        if is_captured && !own_is_captured {
            if own.synchronize().is_err() {
                self.twin.context().finish()?;
            }
        } else if let Some(event) = self.own_event.as_ref().filter(is_recorded) {
            twin.wait(stream, event, self.twin.context())?;
        } else {
            self.twin.context().finish()?;
        }
        Ok(own_is_captured)
    }
}

impl Drop for Elsewhere {
    /// Frees a block that a graph kept, after the graph's launches.
    fn drop(&mut self) {
        let Some(block) = self.kept.get_mut().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let entered = Cuda::behind(block.device()).and_then(|gpu| gpu.enter().ok());
        if entered.is_none() || self.end().is_err() {
            mem::forget(block);
        }
    }
}

impl Point {
    /// Makes a stream wait for the latest use here.
    fn hold(&self, twin: &Twin, stream: &CudaStream, is_captured: bool) -> Result<(), Lost> {
        self.twin.context().settle()?;
        // Without an event, the guard has already waited.
        let Some(event) = &self.event else { return Ok(()) };
        let capture = self.capture.load(Ordering::Relaxed);
        if capture > 0 && !(is_captured && captures::may_run(capture)) {
            // The use does not run before its graph is launched.
            return Ok(());
        }
        // A stream under capture cannot wait for work that is not part of the graph.
        if capture == 0 && is_captured {
            return event.synchronize().or_else(|_| self.twin.context().finish());
        }
        twin.wait(stream, event, self.twin.context())
    }
}

impl<'a> Begun<'a> {
    /// Returns the guard to drop after the use is queued. The block's own stream waits for it before its next use and,
    /// unless the allocator marks the stream, at the drop.
    pub(super) fn note(self, is_marked: bool) -> SyncOnDrop<'a> {
        if !is_marked {
            self.point.waits_at_end.store(true, Ordering::Relaxed);
        }
        let capture = if self.is_captured { captures::number() } else { 0 };
        self.point.capture.store(capture, Ordering::Relaxed);
        match &self.point.event {
            Some(event) => SyncOnDrop::Record(Some((event, self.stream))),
            None => SyncOnDrop::Sync(Some(self.stream)),
        }
    }

    /// Returns a guard that waits until the use is done; nothing waits for a use that is part of a graph.
    pub(super) fn wait(self) -> SyncOnDrop<'a> {
        SyncOnDrop::Sync((!self.is_captured).then_some(self.stream))
    }
}
