//! The start and the end of captures, which decide whether a stream may be queried.

use std::ffi::{c_int, c_void};

use super::{stream_ordered::of_thread, wrapped::wrapped};
use crate::{captures, types::Handle};

wrapped! {
    fn cuStreamBeginCapture["cuStreamBeginCapture", 10000](stream: Handle, mode: c_int)
        = |call| captures::begin(&call);

    fn cuStreamBeginCapture_ptsz["cuStreamBeginCapture", 10000 per_thread](stream: Handle, mode: c_int)
        = |call| captures::begin(&call);

    fn cuStreamBeginCapture_v2["cuStreamBeginCapture", 10010](stream: Handle, mode: c_int)
        = |call| captures::begin(&call);

    fn cuStreamBeginCapture_v2_ptsz["cuStreamBeginCapture", 10010 per_thread](stream: Handle, mode: c_int)
        = |call| captures::begin(&call);

    fn cuStreamBeginCaptureToGraph["cuStreamBeginCaptureToGraph", 12030](
        stream: Handle, graph: Handle, after: *const Handle, edges: *const c_void, n: usize, mode: c_int,
    ) = |call| captures::begin(&call);

    fn cuStreamBeginCaptureToGraph_ptsz["cuStreamBeginCaptureToGraph", 12030 per_thread](
        stream: Handle, graph: Handle, after: *const Handle, edges: *const c_void, n: usize, mode: c_int,
    ) = |call| captures::begin(&call);

    fn cuStreamBeginRecaptureToGraph["cuStreamBeginRecaptureToGraph", 13030](
        stream: Handle, mode: c_int, graph: Handle, compare: *const c_void, of_program: *mut c_void,
    ) = |call| captures::begin(&call);

    fn cuStreamBeginRecaptureToGraph_ptsz["cuStreamBeginRecaptureToGraph", 13030 per_thread](
        stream: Handle, mode: c_int, graph: Handle, compare: *const c_void, of_program: *mut c_void,
    ) = |call| captures::begin(&call);

    fn cuStreamBeginCaptureToCig["cuStreamBeginCaptureToCig", 13010](stream: Handle, parameters: *mut c_void)
        = |call| captures::begin(&call);

    fn cuStreamBeginCaptureToCig_ptsz["cuStreamBeginCaptureToCig", 13010 per_thread](
        stream: Handle, parameters: *mut c_void,
    ) = |call| captures::begin(&call);

    fn cuStreamEndCaptureToCig["cuStreamEndCaptureToCig", 13010](stream: Handle)
        = |call| captures::end(stream.addr(), &call);

    fn cuStreamEndCaptureToCig_ptsz["cuStreamEndCaptureToCig", 13010 per_thread](stream: Handle)
        = |call| captures::end(of_thread(stream), &call);

    fn cuStreamEndCapture["cuStreamEndCapture", 10000](stream: Handle, graph: *mut Handle)
        = |call| captures::end(stream.addr(), &call);

    fn cuStreamEndCapture_ptsz["cuStreamEndCapture", 10000 per_thread](stream: Handle, graph: *mut Handle)
        = |call| captures::end(of_thread(stream), &call);
}
