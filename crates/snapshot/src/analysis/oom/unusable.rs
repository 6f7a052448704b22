//! Memory that was free but could not be used, as the cause of a failed request.

use super::{
    Verdict,
    cause::{Cause, CauseKind},
    explanation::Explanation,
    tried::{TriedSetting, requests},
};
use crate::analysis::Bytes;

impl Explanation<'_, '_> {
    pub(super) fn unusable(&self) -> Option<Cause> {
        let report = &self.report;
        let verdict = report.verdict_of_free()?;
        let cause = |why: String, pinned: &str, advice, conf| Cause {
            kind: CauseKind::Unusable(verdict),
            bytes: report.all_free_bytes().saturating_add(report.pending_bytes),
            finding: format!("{why}{pinned}"),
            advice,
            conf,
        };
        if verdict == Verdict::Unused && report.is_freed_late {
            let advice = "retry the request, which then succeeds, or call torch.cuda.synchronize() before it";
            return Some(cause(report.why_of(verdict), "", Some(advice.to_owned()), None));
        }
        let why = match verdict {
            Verdict::Elsewhere => self.elsewhere_finding(),
            verdict => report.why_of(verdict),
        };
        let conf = self.tried.best().map(|setting| setting.conf.clone());
        Some(cause(why, &self.pins_text(verdict), self.setting_advice(), conf))
    }

    pub(super) fn setting_advice(&self) -> Option<String> {
        if self.tried.settings.is_empty() || !self.reader.takes("max_split_size_mb") {
            return None;
        }
        Some(match self.tried.best() {
            Some(setting) => format!(
                "{} would {}have satisfied {}{}, with a peak of {} reserved and a total of {} device allocs and frees",
                self.reader.line(&setting.conf).unwrap_or_else(|| "the default settings".to_owned()),
                if self.tried.is_certain { "" } else { "perhaps " },
                requests(setting.served),
                after(setting),
                Bytes(setting.reserved_peak_bytes),
                setting.num_device_calls,
            ),
            None if self.tried.settings.iter().any(|setting| setting.served.is_served()) => {
                "settings that satisfy it would make other requests fail (memreel replay --sweep lists \
                 them)"
                    .to_owned()
            }
            None => "no setting that was tried satisfies it (memreel replay --sweep lists them)".to_owned(),
        })
    }
}

/// Returns how many of the requests after the failed one succeed with a setting.
fn after(setting: &TriedSetting) -> String {
    match (setting.num_after, setting.num_served_after) {
        (0, _) => String::new(),
        (n, served) if n == served => format!(" and all {n} requests after it"),
        (n, served) => format!(" and {served} of the {n} requests after it"),
    }
}
