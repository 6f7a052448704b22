//! Device memory outside this allocator, as the cause of a failed request.

use super::{
    Verdict,
    cause::{Cause, CauseKind},
    explanation::Explanation,
};
use crate::analysis::Bytes;

impl Explanation<'_, '_> {
    pub(super) fn occupied(&self) -> Option<Cause> {
        let report = &self.report;
        let cause = |bytes, finding| {
            Cause {
            kind: CauseKind::Occupied,
            bytes,
            finding,
            advice: Some(
                "nvidia-smi lists the device's processes; `memreel record` shows what this one holds outside \
                 its allocator"
                    .to_owned(),
            ),
            conf: None,
        }
        };
        if let Some(slack) = self.pool_slack() {
            return Some(slack);
        }
        if report.is_occupied() {
            return Some(cause(report.outside_bytes().unwrap_or(0), report.why_of(Verdict::Occupied)));
        }
        let (most, could) = (self.most_reserved.reserved_bytes, report.could_hold_at_most_bytes());
        let is_taken = report.device_total_bytes.is_none() && !report.is_limited() && most > could;
        is_taken.then(|| {
            let held = format!(
                "this process held {} {} and can hold only {} now",
                Bytes(most),
                self.at(self.most_reserved.moment),
                Bytes(could),
            );
            cause(
                most - could,
                format!(
                    "{held}: others have taken {} of the device since, or a limit was set (the file does not show which)",
                    Bytes(most - could)
                ),
            )
        })
    }

    /// Returns the memory that the driver's pools of this process keep, if the request would have fit with it.
    fn pool_slack(&self) -> Option<Cause> {
        let report = &self.report;
        let bytes = report.pool_slack_bytes;
        let is_enough = report.all_free_bytes().saturating_add(bytes) >= report.requested_bytes;
        (is_enough && bytes > 0 && !report.is_limited() && report.verdict_of_free().is_none()).then(|| {
            Cause {
            kind: CauseKind::Unusable(Verdict::Elsewhere),
            bytes,
            finding: format!(
                "{} is free in this process's driver pools, which keep it (pool slack)",
                Bytes(bytes)
            ),
            advice: Some(
                "cuMemPoolTrimTo releases it; a lower release threshold of the pools does so automatically"
                    .to_owned(),
            ),
            conf: None,
        }
        })
    }
}
