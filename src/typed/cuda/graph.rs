//! Captured graphs, which keep the memory that their work uses.
#![forbid(unsafe_code)]

use std::{fmt, sync::Arc};

use cudarc::driver::{CudaGraph, CudaStream, DriverError, sys};

use super::{captures::Running, kept::Kept, memory::Memory};
use crate::allocator::{BegunPool, GraphPool};
use memreel_snapshot::words::{Error, Result};

/// Work that was captured once and can be launched many times. It keeps all memory that it uses alive.
///
/// What the captured work allocated comes from a private pool, which is used for nothing else until the graph is
/// dropped; no other code can begin or release it. The blocks of earlier slices remain in use as long as the graph,
/// even if the slices are dropped.
///
/// ```no_run
/// # use cudarc::driver::CudaContext;
/// # use memreel::{Reel, device::Cuda};
/// # let stream = CudaContext::new(0)?.new_stream()?;
/// # let reel = Reel::builder().device(Cuda::new(0)?).build()?;
/// let memory = reel.cuda(0)?;
/// let mut x = memory.zeros::<f32>(1000, &stream)?;
/// let (graph, y) = memory.capture(&stream, || {
///     let mut y = memory.zeros::<f32>(1000, &stream)?;
///     stream.memcpy_dtod(&x, &mut y).expect("a copy can be captured");
///     Ok(y)
/// })?;
/// stream.memcpy_htod(&[1.0; 1000], &mut x)?;
/// graph.launch()?;
/// assert_eq!(stream.clone_dtoh(&y)?, [1.0; 1000]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Limits
/// cudarc's `CudaStream::end_capture` returns a graph that does not keep its memory: its `launch` is a safe function
/// that may use memory that was already freed. Capture with [`Memory::capture`]. A copy from or to the host that is
/// captured keeps the *address* of the host's memory, which cudarc does not keep alive; copy to a slice before the
/// launch instead.
pub struct Graph {
    graph: CudaGraph,
    stream: Arc<CudaStream>,
    kept: Arc<Kept>,
    pool: GraphPool,
}

/// A running capture: a stream under capture, and requests that are routed to a pool.
struct Capture<'a> {
    stream: &'a Arc<CudaStream>,
    kept: Arc<Kept>,
    is_capturing: bool,
    _begun: BegunPool,
    /// The reference to the pool, which the graph takes over.
    pool: Option<GraphPool>,
    _running: Running,
}

impl<'a> Capture<'a> {
    fn begin(memory: &Memory, stream: &'a Arc<CudaStream>) -> Result<Capture<'a>> {
        memory.register(stream)?;
        let pool = GraphPool::new(memory.allocator());
        let begun = pool.begin()?;
        let (kept, running) = (Kept::begin(pool.id()), Running::begin());
        let pool = Some(pool);
        let mut capture =
            Capture { stream, kept, is_capturing: false, _begun: begun, pool, _running: running };
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        stream.begin_capture(mode).map_err(|error| memory.failed("cuStreamBeginCapture", error))?;
        capture.is_capturing = true;
        Ok(capture)
    }

    fn end(mut self, memory: &Memory) -> Result<Graph> {
        self.is_capturing = false;
        let graph = end_capture(self.stream);
        let graph = graph.map_err(|error| memory.failed("cuStreamEndCapture", error))?;
        let (Some(graph), Some(pool)) = (graph, self.pool.take()) else {
            return Err(Error::device(&memory.allocator().device_name(), "nothing was captured"));
        };
        Ok(Graph { graph, stream: self.stream.clone(), kept: self.kept.clone(), pool })
    }
}

/// Ends a capture, even if the context holds an error for its next call.
fn end_capture(stream: &Arc<CudaStream>) -> std::result::Result<Option<CudaGraph>, DriverError> {
    let end = || stream.end_capture(sys::CUgraphInstantiate_flags(0));
    end().or_else(|error| end().map_err(|_| error))
}

impl Drop for Capture<'_> {
    /// Ends the capture unless it became a graph. Dropping the fields then ends the routing of requests.
    fn drop(&mut self) {
        if self.is_capturing {
            let _ = end_capture(self.stream);
        }
        self.kept.end();
    }
}

impl Memory {
    /// Captures the work that `work` queues on `stream` as a graph, instead of
    /// running it. Returns the graph with what `work` returned.
    ///
    /// During `work`, all requests of this thread come from a private pool of
    /// the graph. Streams that wait for events of `stream` take part in the
    /// capture; `stream` must wait for them before `work` ends.
    ///
    /// # Errors
    /// The errors of `work`; [`Error::is_misuse`] for a stream that slices cannot use; [`Error::is_device`] when the
    /// driver refuses the capture, as it does for the default stream and for work that cannot be captured.
    pub fn capture<T>(
        &self,
        stream: &Arc<CudaStream>,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<(Graph, T)> {
        let capture = Capture::begin(self, stream)?;
        let value = work()?;
        Ok((capture.end(self)?, value))
    }
}

impl Graph {
    /// Queues the captured work on the stream that was captured.
    ///
    /// It is ordered with all uses of its slices that are queued before and after it. During the call, no other thread
    /// may queue uses of these slices on other streams.
    ///
    /// # Errors
    /// [`Error::is_device`] when the driver fails.
    pub fn launch(&self) -> Result<()> {
        let slices = self.kept.slices();
        let guards: std::result::Result<Vec<_>, _> =
            slices.iter().map(|elsewhere| elsewhere.begin_launch(&self.stream)).collect();
        let failed = |what: String| Error::device(&self.pool.allocator().device_name(), what);
        let _guards = guards.map_err(|_| failed("the launch cannot be ordered after other work".into()))?;
        self.graph.launch().map_err(|error| failed(format!("cuGraphLaunch: {error}")))
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph")
            .field("stream", &self.stream)
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}
