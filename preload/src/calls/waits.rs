//! Calls that wait for work, and the end of streams: frees in the order of a stream are complete then.

use super::wrapped::wrapped;
use crate::{completions, contexts, types::Handle};

wrapped! {
    fn cuCtxSynchronize["cuCtxSynchronize", 2000]() = |call| completions::waited(None, &call);

    fn cuCtxSynchronize_v2["cuCtxSynchronize", 13000](context: Handle)
        = |call| if contexts::is_current(context) { completions::waited(None, &call) } else { call() };

    fn cuStreamSynchronize["cuStreamSynchronize", 2000](stream: Handle)
        = |call| completions::waited(Some(stream.addr()), &call);

    // The default stream of a thread is that thread's; frees of all threads' are counted as one stream's.
    fn cuStreamSynchronize_ptsz["cuStreamSynchronize", 7000 per_thread](stream: Handle)
        = |call| if stream.is_null() { call() } else { completions::waited(Some(stream.addr()), &call) };

    fn cuStreamDestroy_v2["cuStreamDestroy", 4000](stream: Handle) = |call| {
        completions::destroyed(stream.addr());
        call()
    };
}
