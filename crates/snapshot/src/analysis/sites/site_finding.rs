//! Findings about the memory of one call, as a sentence with advice.

use super::with_frames::AtSite;

/// A finding about the memory of one call.
pub trait SiteFinding: AtSite {
    /// Returns what was found, in one sentence; `by` is the text of the call.
    fn finding(&self, by: &str) -> String;

    /// Returns what to do; `None` if the finding states it.
    fn advice(&self) -> Option<&'static str> {
        None
    }
}
