//! Calls that wait for work, and the end of streams: stream-ordered frees are complete then.

use super::{
    stream_ordered::{STREAM_PER_THREAD, of_thread},
    wrapped::wrapped,
};
use crate::{
    completions, contexts, nested,
    types::{Handle, Status},
};

wrapped! {
    fn cuCtxSynchronize["cuCtxSynchronize", 2000]() = |call| completions::waited(None, &call);

    fn cuCtxSynchronize_v2["cuCtxSynchronize", 13000](context: Handle)
        = |call| if contexts::is_current(context) { completions::waited(None, &call) } else { call() };

    fn cuStreamSynchronize["cuStreamSynchronize", 2000](stream: Handle)
        = |call| synchronized(stream.addr(), &call);

    fn cuStreamSynchronize_ptsz["cuStreamSynchronize", 7000 per_thread](stream: Handle)
        = |call| synchronized(of_thread(stream), &call);

    fn cuStreamDestroy_v2["cuStreamDestroy", 4000](stream: Handle) = |call| {
        completions::destroyed(stream.addr());
        call()
    };
}

/// Completes frees of a stream. The default stream of a thread is that thread's, and the frees of all threads' are counted
/// as one stream's: that one completes none.
fn synchronized(stream: usize, call: &dyn Fn() -> Status) -> Status {
    if stream == STREAM_PER_THREAD { nested::apart(call) } else { completions::waited(Some(stream), call) }
}
