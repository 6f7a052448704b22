//! Growth, as the cause of a failed request.

use super::{
    cause::{Cause, CauseKind},
    explanation::Explanation,
    tried::requests,
};
use crate::{
    analysis::{Bytes, GrowthKind, Growths},
    history::{Moment, step_of},
};

impl Explanation<'_, '_> {
    pub(super) fn grew(&self) -> Option<Cause> {
        let growths = self.growths.as_ref()?;
        let kind = growths.kind()?;
        Some(Cause {
            kind: CauseKind::Grew,
            bytes: growths.bytes(),
            finding: self.growth_finding(growths, kind),
            advice: self.tried.without_growth.map(|served| match served.n_requests {
                0 => "without these blocks, it would still have failed".to_owned(),
                _ => format!("without these blocks, {} would have succeeded", requests(served)),
            }),
            conf: None,
        })
    }

    fn growth_finding(&self, growths: &Growths, kind: GrowthKind) -> String {
        let (bytes, most) = (Bytes(growths.bytes()), &growths.sites[0]);
        let n_sites = growths.sites.len();
        let blocks = match growths.sites.iter().map(|site| site.n_blocks).sum() {
            1 => "1 block".to_owned(),
            n_blocks => format!("{n_blocks} blocks"),
        };
        let site = self.site(&most.site);
        let began = growths.began().unwrap_or(growths.settled);
        let since = match self.grew_by_request && kind == GrowthKind::LargerStep {
            true => format!("{}, with this request", self.since(began)),
            false => self.since(began),
        };
        let held = match n_sites {
            1 => site,
            n => format!("{n} sites (most of it, {}, at {site})", Bytes(most.bytes)),
        };
        match kind {
            GrowthKind::Steady => {
                let pace = self.history.pace(growths.bytes(), began, self.report.totals.moment);
                let pace = pace.map_or_else(String::new, |pace| format!(", {pace},"));
                format!("{held} grew by {bytes} in {blocks} {since}{pace} and freed none of it: a leak")
            }
            GrowthKind::Late => {
                let n_events = (self.report.entry + 2).saturating_sub(began.n_entries()).max(1);
                format!(
                    "{held} allocated {bytes} in {blocks} during the last {n_events} of {} events, {since}, and \
                     freed none of it",
                    self.report.entry + 1,
                )
            }
            GrowthKind::LargerStep => format!(
                "this step is larger than those before it: {held} need{} {bytes} more than ever before, {since} ({} \
                 instead of {} there)",
                if n_sites == 1 { "s" } else { "" },
                Bytes(most.held_bytes),
                Bytes(most.usual_bytes),
            ),
        }
    }

    fn since(&self, moment: Moment) -> String {
        match moment.entry() {
            None => "since before the history".to_owned(),
            Some(event) => format!("since event {event}{}", self.in_step(moment)),
        }
    }

    pub(super) fn at(&self, moment: Moment) -> String {
        match moment.entry() {
            None => "before the history".to_owned(),
            Some(event) => format!("at event {event}{}", self.in_step(moment)),
        }
    }

    /// Returns the step that a moment is in, in brackets.
    fn in_step(&self, moment: Moment) -> String {
        let step = moment.entry().and_then(|entry| step_of(&self.steps, entry));
        step.map_or_else(String::new, |step| format!(" ({step})"))
    }
}
