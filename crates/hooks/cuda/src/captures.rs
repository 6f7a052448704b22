//! Tracks whether streams are being captured into graphs.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{driver::driver, types::Status};

/// How many captures have started but not ended. Most programs have none, and then no stream is queried.
static N_OPEN: AtomicUsize = AtomicUsize::new(0);

/// Counts a call that starts a capture.
pub(crate) fn begin(call: &dyn Fn() -> Status) -> Status {
    // Before the call: once it returns, another thread may use the stream.
    N_OPEN.fetch_add(1, Ordering::SeqCst);
    let status = call();
    if !status.is_success() {
        N_OPEN.fetch_sub(1, Ordering::SeqCst);
    }
    status
}

/// Counts a call that ends the capture of a stream.
///
/// The stream decides, not the status: the end of a stream that is not captured, or that another thread captures, is an
/// error that ends nothing, and the end of a capture that had become invalid is an error too. A stream that was
/// destroyed before that leaves the number too high, which only costs a query at each allocation.
pub(crate) fn end(stream: usize, call: &dyn Fn() -> Status) -> Status {
    let was_captured = is_capturing(stream);
    let status = call();
    if was_captured && !is_capturing(stream) {
        let _ = N_OPEN.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
    }
    status
}

/// Returns whether a stream of the program's call is captured.
#[inline]
pub(crate) fn is_capturing(stream: usize) -> bool {
    // SAFETY: the program passes the stream to the driver in the same call.
    N_OPEN.load(Ordering::SeqCst) > 0 && driver().is_some_and(|driver| unsafe { driver.is_capturing(stream) })
}
