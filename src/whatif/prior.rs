//! Judges blocks that were live before the history started, and what a replay assumes about them.

use super::{calls::Read, recorded_run::RecordedRun, start::Start};
use memreel_snapshot::{
    history::{ByDevice, Trust},
    words::DeviceId,
};

/// Returns the facts that lower the confidence in an answer.
pub(super) fn judge(
    records: &ByDevice<'_>,
    device: DeviceId,
    n_entries: usize,
    read: &Read,
    recorded: &RecordedRun,
) -> Trust {
    let mut trust = Trust::from_settings(records, device);
    trust.n_entries = n_entries;
    trust.n_before = read.priors.len();
    trust.bytes_before = read.priors.iter().fold(0, |sum, prior| sum.saturating_add(prior.bytes));
    trust.n_nameless = read.priors.iter().filter(|prior| prior.stack.is_none()).count();
    trust.reserved_before_bytes = recorded.start_bytes;
    trust
}

/// Returns a warning about these blocks for users; `None` if the history is complete.
pub(super) fn warning(trust: &Trust, start: &Start) -> Option<String> {
    let Trust { n_before, bytes_before, reserved_before_bytes, .. } = *trust;
    let lost = if trust.has_lost { "its ring lost the oldest entries, and " } else { "" };
    let assumed = match start {
        Start::Recorded(_) => {
            "every replay starts with them, as if the setting had been changed at that moment".to_owned()
        }
        Start::Anew { reason } => format!(
            "their places are unknown ({reason}), so they are allocated first, by address, which cannot \
             reproduce the gaps between them"
        ),
    };
    (!trust.begins_empty()).then(|| {
        format!(
            "the history is incomplete: {lost}{n_before} blocks of {bytes_before} bytes were live before it \
             started, in {reserved_before_bytes} reserved bytes; {assumed}"
        )
    })
}
