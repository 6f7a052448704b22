//! The causes of a failed request, each with its number and what can be done about it.

use serde::{Serialize, Serializer};

use super::{
    Verdict,
    explanation::Explanation,
    tried::{Served, TriedSetting},
};
use crate::{
    analysis::{Bytes, GrowthKind, Growths, PinnedSegment, Site},
    history::{Moment, step_of},
};

/// What kind of cause it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CauseKind {
    /// The process has a limit, and the device had room.
    Limited,
    /// Sites hold more than before: a leak, a burst, or a step that is larger than those before it.
    Grew,
    /// Memory was free and could not be used, for the reason of the verdict.
    Unusable(Verdict),
    /// Others hold a good part of the device.
    Occupied,
    /// The blocks in use and the request are too large together.
    Full,
    /// What holds the rest of the memory, where there is a cause before it.
    Held,
    /// The request was for addresses, of which the process has reserved too many.
    Addresses,
}

impl CauseKind {
    /// Returns `limited`, `grew`, the name of the verdict, `occupied`, `full`, `held` or `addresses`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CauseKind::Limited => Verdict::Limited.name(),
            CauseKind::Grew => "grew",
            CauseKind::Unusable(verdict) => verdict.name(),
            CauseKind::Occupied => Verdict::Occupied.name(),
            CauseKind::Full => Verdict::Full.name(),
            CauseKind::Held => "held",
            CauseKind::Addresses => Verdict::Addresses.name(),
        }
    }
}

impl Serialize for CauseKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}

/// A cause of a failed request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Cause {
    /// Its kind.
    pub kind: CauseKind,
    /// The bytes that the process would have had without it.
    pub bytes: u64,
    /// What was found, in one sentence with its figures.
    pub finding: String,
    /// What to do, in one sentence with the result of a replay; `None` if nothing was tried.
    pub advice: Option<String>,
    /// The advised setting, as a text of `PYTORCH_ALLOC_CONF`.
    pub conf: Option<String>,
}

impl Cause {
    /// Marks its advice as one after which the program would have failed all the same, a little later.
    fn only_delays(&mut self) {
        self.conf = None;
        self.advice = self.advice.take().map(|advice| format!("only a delay: {advice}"));
    }
}

/// A cause with less than this part of what the process could hold is a minor one: one in this number.
const MINOR: u64 = 20;

/// Memory that could not be used is a minor cause below this part of what the process could hold, one in this number, unless
/// a setting would have served this number of such requests with it.
const UNUSABLE: u64 = 3;
const MANY_REQUESTS: u32 = 5;

impl Explanation<'_, '_> {
    /// Returns the causes: first a limit of the process, which refused the request, and then in the order in which to act on
    /// them. These are what grew, memory that could not be used and memory that others hold, the one with the most bytes
    /// first; then the size of what is in use. Last are the minor ones, without which the program would have failed a little
    /// later. A request for addresses has this cause alone.
    #[must_use]
    pub fn causes(&self) -> Vec<Cause> {
        if self.report.verdict == Verdict::Addresses {
            return vec![self.addresses()];
        }
        let mut causes: Vec<Cause> =
            [self.grew(), self.unusable(), self.occupied()].into_iter().flatten().collect();
        // A stable sort: of two with as many bytes, what grew is first.
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.bytes));
        let (mut minor, major): (Vec<Cause>, Vec<Cause>) =
            causes.into_iter().partition(|cause| self.is_minor(cause));
        minor.iter_mut().filter(|cause| cause.conf.is_some()).for_each(Cause::only_delays);
        let has_grown = major.iter().any(|cause| cause.kind == CauseKind::Grew);
        let mut causes: Vec<Cause> = self.limited().into_iter().chain(major).collect();
        // What gives nothing back goes on, whatever the limit and the setting.
        let goes_on = self.growths.as_ref().and_then(Growths::kind) != Some(GrowthKind::LargerStep);
        let serves_the_rest = self
            .tried
            .best()
            .is_some_and(|best| best.num_after > 0 && best.num_served_after == best.num_after);
        let is_delayed = |cause: &&mut Cause| {
            cause.kind == CauseKind::Limited || cause.conf.is_some() && goes_on && !serves_the_rest
        };
        if has_grown {
            causes.iter_mut().filter(is_delayed).for_each(Cause::only_delays);
        }
        causes.push(if causes.is_empty() { self.full() } else { self.held() });
        causes.append(&mut minor);
        causes
    }

    fn is_minor(&self, cause: &Cause) -> bool {
        let could_hold = self.report.could_hold_bytes();
        match cause.kind {
            // A leak goes on, however little of it the history shows.
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

    fn addresses(&self) -> Cause {
        Cause {
            kind: CauseKind::Addresses,
            bytes: self.report.reserved_address_bytes.unwrap_or(0),
            finding: self.report.why(),
            advice: Some(
                "give back ranges that nothing is mapped in (cuMemAddressFree); each import of an expandable segment reserves \
                 more than the whole device, so import it once and keep it"
                    .to_owned(),
            ),
            conf: None,
        }
    }

    fn limited(&self) -> Option<Cause> {
        let report = &self.report;
        let advice = || {
            let needed = Bytes(self.tried.needed_bytes?);
            let option = "per_process_memory_fraction";
            let also = match self.reader.takes(option) {
                true => format!(", or {option} in {}", self.reader.variable()),
                false => String::new(),
            };
            Some(format!(
                "a limit of {needed} would have served this request (torch.cuda.set_{option}{also})"
            ))
        };
        report.is_limited().then(|| Cause {
            kind: CauseKind::Limited,
            bytes: report.device_free_bytes,
            finding: format!(
                "the device had {} free and refused: this process is limited; it holds {} and may not hold {} more",
                Bytes(report.device_free_bytes),
                Bytes(report.totals.reserved_bytes),
                Bytes(report.segment_bytes),
            ),
            advice: advice(),
            conf: None,
        })
    }

    fn grew(&self) -> Option<Cause> {
        let growths = self.growths.as_ref()?;
        let kind = growths.kind()?;
        Some(Cause {
            kind: CauseKind::Grew,
            bytes: growths.bytes(),
            finding: self.growth_finding(growths, kind),
            advice: self.tried.without_growth.map(|served| match served.n_requests {
                0 => "without these blocks it would still have failed".to_owned(),
                _ => format!("without these blocks {} would have been served", requests(served)),
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
                format!("{held} grew by {bytes} in {blocks} {since}{pace} and gave nothing back: a leak")
            }
            GrowthKind::Late => {
                let n_events = (self.report.entry + 2).saturating_sub(began.n_entries()).max(1);
                format!(
                    "{held} took {bytes} in {blocks} in the last {n_events} of {} events, {since}, and gave \
                     nothing back",
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

    fn unusable(&self) -> Option<Cause> {
        let report = &self.report;
        let verdict = report.verdict_of_free()?;
        let pinned = self.pinned_text();
        Some(Cause {
            kind: CauseKind::Unusable(verdict),
            bytes: report.all_free_bytes().saturating_add(report.pending_bytes),
            finding: format!("{}{pinned}", report.why_of(verdict)),
            advice: self.setting_advice(),
            conf: self.tried.best().map(|setting| setting.conf.clone()),
        })
    }

    /// Returns what pins the segment with the most free bytes.
    fn pinned_text(&self) -> String {
        let pinned = |pinned: &PinnedSegment| {
            let (used, all) = (Bytes(pinned.used_bytes), Bytes(pinned.range.bytes));
            let site = self.site(&Site::from_life(&pinned.largest));
            let others = match self.pinned.len() {
                1 => String::new(),
                2 => ", and 1 more is less than half used".to_owned(),
                n => format!(", and {} more are less than half used", n - 1),
            };
            format!("; {used} of {site} keep a segment of {all}{others}")
        };
        self.pinned.first().map_or_else(String::new, pinned)
    }

    fn setting_advice(&self) -> Option<String> {
        if self.tried.settings.is_empty() || !self.reader.takes("max_split_size_mb") {
            return None;
        }
        Some(match self.tried.best() {
            Some(setting) => format!(
                "{} would {}have served {}{}, with {} reserved at the peak and {} calls to the device",
                self.reader.line(&setting.conf).unwrap_or_else(|| "the default settings".to_owned()),
                if self.tried.is_certain { "" } else { "perhaps " },
                requests(setting.served),
                after(setting),
                Bytes(setting.reserved_peak_bytes),
                setting.num_device_calls,
            ),
            None if self.tried.settings.iter().any(|setting| setting.served.is_served()) => {
                "settings that serve it fail other requests that were served (memreel replay --sweep lists them)".to_owned()
            }
            None => "no setting that was tried serves it (memreel replay --sweep lists them)".to_owned(),
        })
    }

    fn occupied(&self) -> Option<Cause> {
        let report = &self.report;
        let cause = |bytes, finding| {
            Cause {
            kind: CauseKind::Occupied,
            bytes,
            finding,
            advice: Some(
                "nvidia-smi lists the processes of the device; `memreel record` shows what this one holds outside of \
                 its allocator"
                    .to_owned(),
            ),
            conf: None,
        }
        };
        if report.is_occupied() {
            return Some(cause(report.outside_bytes().unwrap_or(0), report.why_of(Verdict::Occupied)));
        }
        let (most, could) = (self.most_reserved.reserved_bytes, report.could_hold_at_most_bytes());
        let is_taken = report.device_total_bytes.is_none() && !report.is_limited() && most > could;
        is_taken.then(|| {
            let finding = format!(
                "this process held {} {} and could hold {} now: others have taken {} of the device since",
                Bytes(most),
                self.at(self.most_reserved.moment),
                Bytes(could),
                Bytes(most - could),
            );
            cause(most - could, finding)
        })
    }

    fn full(&self) -> Cause {
        let report = &self.report;
        let more = match report.requested_bytes.saturating_sub(report.all_free_bytes()) {
            0 => String::new(),
            more => format!(", {} more than is free", Bytes(more)),
        };
        let bytes = report.totals.active_bytes;
        let finding = format!(
            "{} are in use and {} were requested{more}{}",
            Bytes(bytes),
            Bytes(report.requested_bytes),
            self.most_held(),
        );
        // Without rounding, or in other pieces, the same blocks may fit.
        let best = self.tried.best();
        let advice = best.and_then(|_| self.setting_advice());
        Cause {
            kind: CauseKind::Full,
            bytes,
            finding,
            advice,
            conf: best.map(|setting| setting.conf.clone()),
        }
    }

    fn held(&self) -> Cause {
        let bytes = self.report.totals.active_bytes;
        let finding = format!("{} are in use{}", Bytes(bytes), self.most_held());
        Cause { kind: CauseKind::Held, bytes, finding, advice: None, conf: None }
    }

    fn most_held(&self) -> String {
        self.live.first().map_or_else(String::new, |group| {
            format!("; {} of it by {}", Bytes(group.bytes), self.site(&group.site))
        })
    }

    fn since(&self, moment: Moment) -> String {
        match moment.entry() {
            None => "since before the history".to_owned(),
            Some(event) => format!("since event {event}{}", self.in_step(moment)),
        }
    }

    fn at(&self, moment: Moment) -> String {
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

/// Returns how many of the requests after the failed one a setting serves.
fn after(setting: &TriedSetting) -> String {
    match (setting.num_after, setting.num_served_after) {
        (0, _) => String::new(),
        (n, served) if n == served => format!(" and all {n} requests after it"),
        (n, served) => format!(" and {served} of the {n} requests after it"),
    }
}

fn requests(served: Served) -> String {
    match served.n_requests {
        1 => "this request and no further one of its size".to_owned(),
        2 => "this request and 1 more of its size".to_owned(),
        Served::MOST.. => format!("this request and {} or more of its size", Served::MOST - 1),
        n => format!("this request and {} more of its size", n - 1),
    }
}
