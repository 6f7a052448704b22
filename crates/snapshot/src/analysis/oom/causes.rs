//! Orders the causes of a failed request by which to act on first.

use super::{
    Verdict,
    cause::{Cause, CauseKind},
    explanation::Explanation,
    tried::TriedSetting,
};
use crate::analysis::{GrowthKind, Growths};

/// A cause below this fraction of what the process could hold is minor: one in this number.
pub(super) const MINOR: u64 = 20;

/// Memory that could not be used is a minor cause below this fraction of what the process could hold, one in this
/// number, unless a setting would have satisfied this number of such requests with it.
pub(super) const UNUSABLE: u64 = 3;
pub(super) const MANY_REQUESTS: u32 = 5;

impl Explanation<'_, '_> {
    /// Returns the verdict, which is the kind of the first cause.
    #[must_use]
    pub fn verdict(&self) -> CauseKind {
        self.causes()[0].kind
    }

    /// Returns the causes, at least one, in the order in which to act on them. First come growth, memory that could not
    /// be used, and memory that others hold, most bytes first. Then comes a limit that refused the request, then the
    /// size of what is in use. Last are the minor causes, without which the program would have failed a little later. A
    /// request for addresses has only this cause.
    #[must_use]
    pub fn causes(&self) -> Vec<Cause> {
        if self.report.verdict == Verdict::Addresses {
            return vec![self.addresses()];
        }
        let mut causes: Vec<Cause> =
            [self.grew(), self.unusable(), self.occupied()].into_iter().flatten().collect();
        // A stable sort: if two have the same bytes, growth comes first.
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.bytes));
        let (mut minor, major): (Vec<Cause>, Vec<Cause>) =
            causes.into_iter().partition(|cause| self.is_minor(cause));
        minor.retain(|cause| self.is_worth_a_line(cause));
        minor.iter_mut().filter(|cause| cause.conf.is_some()).for_each(Cause::only_delays);
        let has_grown = major.iter().any(|cause| cause.kind == CauseKind::Grew);
        let mut causes: Vec<Cause> = major.into_iter().chain(self.limited()).collect();
        // What gives nothing back continues, whatever the limit and the setting.
        let goes_on = self.growths.as_ref().and_then(Growths::kind) != Some(GrowthKind::LargerStep);
        let serves_the_rest = self.tried.best().is_some_and(TriedSetting::serves_the_rest);
        let is_delayed = |cause: &&mut Cause| {
            cause.kind == CauseKind::Limited || cause.conf.is_some() && goes_on && !serves_the_rest
        };
        if has_grown {
            causes.iter_mut().filter(is_delayed).for_each(Cause::only_delays);
        }
        if causes.is_empty() {
            let is_setting_said = minor.iter().any(|cause| matches!(cause.kind, CauseKind::Unusable(_)));
            causes.push(self.full(is_setting_said));
        }
        causes.append(&mut minor);
        self.add_places(&mut causes);
        causes
    }

    fn is_minor(&self, cause: &Cause) -> bool {
        let could_hold = self.report.could_hold_bytes();
        match cause.kind {
            // A leak continues, however little of it the history shows.
            CauseKind::Grew if self.growths.as_ref().and_then(Growths::kind) == Some(GrowthKind::Steady) => {
                false
            }
            CauseKind::Unusable(_) if cause.bytes < could_hold / UNUSABLE => {
                let served = self.tried.best().map_or(0, |setting| setting.served.n_requests);
                cause.bytes < could_hold / MINOR || served < MANY_REQUESTS
            }
            _ => cause.bytes < could_hold / MINOR,
        }
    }

    /// Returns whether a minor cause may be acted on. Memory that could not be used is not, if no tried setting
    /// satisfies the request, or if it is less than what is still to come.
    fn is_worth_a_line(&self, cause: &Cause) -> bool {
        let best = self.tried.best();
        let served = best.map_or(0, |best| u64::from(best.served.n_requests));
        let served_bytes = served.saturating_mul(self.report.requested_bytes);
        let is_enough = || self.states_to_come().is_none_or(|states| states.bytes <= served_bytes);
        let is_useful = || (best.is_some() || self.tried.settings.is_empty()) && is_enough();
        !matches!(cause.kind, CauseKind::Unusable(_)) || is_useful()
    }

    fn addresses(&self) -> Cause {
        Cause {
            kind: CauseKind::Addresses,
            bytes: self.report.reserved_address_bytes.unwrap_or(0),
            finding: self.report.why(),
            advice: Some(
                "release address ranges in which nothing is mapped (cuMemAddressFree); each import of an \
                 expandable segment reserves more than the whole device, so import it once and keep it"
                    .to_owned(),
            ),
            conf: None,
        }
    }
}
