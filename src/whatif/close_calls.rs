//! The requests of a history that almost failed.

use super::{
    Requests,
    close_call::{CloseCall, is_release},
};
use memreel_snapshot::{analysis::DeviceHistory, model::TraceEntry, words::Action};

/// Returns the close calls of a history, in order; none if the history cannot be replayed, or under a setting that
/// releases segments before the device is full.
///
/// ```
/// use memreel::{DeviceId, Reel, analysis::DeviceHistory, device::Simulated, recorder::Recording, whatif::close_calls};
///
/// let reel = Reel::builder().device(Simulated::new(60 << 20)).history(Recording::all()).build()?;
/// drop(reel.alloc(40 << 20)?);
/// let _block = reel.alloc(50 << 20)?;
/// let snapshot = reel.snapshot();
/// let calls = close_calls(&DeviceHistory::new(&snapshot, DeviceId(0)));
/// assert_eq!((calls[0].requested_bytes, calls[0].released_bytes), (50 << 20, 40 << 20));
/// # Ok::<(), memreel::Error>(())
/// ```
#[must_use]
pub fn close_calls(history: &DeviceHistory<'_>) -> Vec<CloseCall> {
    let grows = |entry: &TraceEntry| matches!(entry.action, Some(Action::SegmentAlloc | Action::SegmentMap));
    // Few histories have one, and reading the requests takes as long as everything else.
    let has_one = history.entries().windows(2).any(|pair| is_release(&pair[0]) && grows(&pair[1]));
    let requests = has_one.then(|| Requests::new(history.snapshot(), history.device()).ok()).flatten();
    requests.map_or_else(Vec::new, |requests| requests.close_calls().to_vec())
}
