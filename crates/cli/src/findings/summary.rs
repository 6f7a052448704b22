//! The summary of a device: what happened, what failed and why, what grows, what is largest, and what to do next. It is a
//! list of parts, each with its text and the place where the page shows what it is about.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel::whatif::{CloseCall, close_calls, explain};
use memreel_snapshot::{
    analysis::{
        By, Claim, DeviceHistory, EarlierPeak, Group, IdleStreams, LeakSite, PoolUse, ReservedGrowth, Site,
        Totals, Waiting,
        oom::{CauseKind, Explanation, Verdict},
    },
    history::{Absence, Moment},
};
use serde_json::json;

use crate::{
    findings::{
        causes::{print_cause, print_failure},
        growth::claims,
        summary_part::{Parts, Place, SummaryPart, Topic},
    },
    input::each::DeviceOfFile,
    options::moment::{self, of_the_last},
    text::{
        Bytes, List, Page, Sites, WithList, WithRest, count, labels, percent,
        pool_table::{print_idle_pools, print_pools},
        print_text, print_warnings, print_wrapped,
        rest::rest,
        sites::{figures, print_rows},
        stream_table::finding,
        used_and_pending,
    },
};

/// How many causes of a failed request are shown.
const N_CAUSES: usize = 2;

/// How many sites of a kind are shown.
const N_SITES: usize = 3;

/// How many pools are shown.
const N_POOLS: usize = 4;

/// The findings about one device.
pub(crate) struct Summary<'a> {
    history: &'a DeviceHistory<'a>,
    peak: Totals,
    end: Totals,
    most_reserved: Totals,
    failure: Option<Explanation<'a, 'a>>,
    /// The requests that almost failed.
    close_calls: Vec<CloseCall>,
    reserved_growth: Option<ReservedGrowth>,
    idle_streams: Vec<IdleStreams>,
    /// What waits at the peak, or else at the end.
    waiting: Option<Waiting>,
    pools: Vec<PoolUse>,
    growing: Vec<LeakSite>,
    holders: Vec<Group>,
    /// The peak if it was before the events, with the stacks of the holders.
    earlier: Option<(&'a EarlierPeak, DeviceHistory<'a>)>,
}

impl<'a> Summary<'a> {
    pub(crate) fn new(history: &'a DeviceHistory<'a>) -> Summary<'a> {
        let earlier = history.earlier_peak().map(|peak| (peak, peak.stacks()));
        let peak = earlier.as_ref().map_or_else(|| history.peak(), |(peak, _)| peak.totals());
        let holders = match &earlier {
            Some((peak, stacks)) => peak.top(stacks, By::Stack).unwrap_or_default(),
            None => history.top(peak.moment, By::Stack),
        };
        let mut growing: Vec<LeakSite> = history.leaks();
        growing.retain(|site| site.claim != Claim::Held);
        // It has the memory of all sites.
        growing.shrink_to_fit();
        Summary {
            history,
            peak,
            end: history.totals_at(history.end()),
            most_reserved: history.highest(|totals| totals.reserved_bytes),
            failure: history.oom().map(|report| explain(history, report)),
            close_calls: close_calls(history),
            reserved_growth: history.reserved_growth(),
            idle_streams: history.idle_streams(history.end()),
            waiting: history.waiting(peak.moment).or_else(|| history.waiting(history.end())),
            pools: history.pool_uses(history.end()),
            growing,
            holders,
            earlier,
        }
    }

    /// Returns the history that has the stacks of the holders.
    fn stacks(&self) -> &DeviceHistory<'a> {
        self.earlier.as_ref().map_or(self.history, |(_, stacks)| stacks)
    }

    pub(crate) fn print_json(&self, asked: &DeviceOfFile<'_>, out: &mut Page) -> io::Result<()> {
        let sites = Sites::new(self.history, N_SITES);
        let oom = self.failure.as_ref().map(|failure| {
            let (report, cause) = (failure.report(), &failure.causes()[0]);
            json!({
                "event": report.entry,
                "requested_bytes": report.requested_bytes,
                "verdict": cause.kind,
                "why": cause.finding,
                "n_ooms": report.n_ooms,
            })
        });
        let trust = self.history.trust();
        let head = json!({
            "memreel_version": asked.opened.setting("memreel_version"),
            "settings": asked.opened.setting("PYTORCH_CUDA_ALLOC_CONF"),
            "events": self.history.entries().len(),
            "span_us": self.history.span_us(),
            "is_whole": trust.is_whole(),
            "is_exact": trust.is_exact(),
            "peak": self.peak,
            "peak_is_of_run": trust.knows_peak(),
            "end": self.end,
            "most_reserved": self.most_reserved,
            "oom": oom,
            "close_calls": self.close_calls.len(),
            "reserved_growth": self.reserved_growth.as_ref().map(|growth| sites.with_frames(growth)),
            "idle_streams": sites.first_with_frames(&self.idle_streams, N_SITES),
            "pools": sites.first_with_frames(&self.pools, N_POOLS),
            "n_growing": self.growing.len(),
        });
        let growing = sites.first_with_frames(&self.growing, N_SITES);
        let of_holders = Sites::new(self.stacks(), N_SITES);
        let holders = of_holders.first_with_frames(&self.holders, N_SITES);
        let rest = WithRest { rest: rest(&self.holders, N_SITES, |group| group.bytes) };
        let holders = WithList { head: json!({}), list: List("holders", &holders), rest };
        asked.print_json(&WithList { head, list: List("growing", &growing), rest: holders }, out)
    }

    /// Prints the parts. `said` is what the line about the file has already reported about a missing history; it is not
    /// repeated.
    pub(crate) fn print(&self, said: Option<Absence>, out: &mut Page) -> io::Result<()> {
        self.parts(said, out)?.iter().try_for_each(|part| out.write_all(part.text.as_bytes()))
    }

    /// Returns the parts in the order in which they are printed.
    pub(crate) fn parts(&self, said: Option<Absence>, page: &Page) -> io::Result<Vec<SummaryPart>> {
        let (history, bold) = (self.history, page.bold());
        let mut parts = Parts::on(page);
        parts.add(Topic::Device, None, |out| {
            let events = match history.entries().len() {
                0 => "no history".to_owned(),
                n => count(n, "event") + &moment::span_words(history),
            };
            let whole = if history.trust().is_whole() { ", complete history" } else { "" };
            writeln!(out, "\n{bold}{}{bold:#}: {events}{whole}", labels::device(history.device()))
        })?;
        self.add_totals(&mut parts)?;
        parts.add(Topic::Warning, None, |out| {
            match history.trust().absence {
                Some(absence) if said == Some(absence) => writeln!(out, "note: figures are for the end")?,
                _ => print_warnings(history, out)?,
            }
            print_idle_pools(&history.idle_pools(history.end()), out)
        })?;
        let sites = Sites::new(history, 3);
        self.add_failure(&mut parts)?;
        if let (None, Some(call)) = (&self.failure, self.close_calls.last()) {
            let place = Place::moment("timeline", refused(call));
            parts.line(Topic::CloseCall, Some(place), &self.close_call(call))?;
        }
        self.add_kept(&sites, &mut parts)?;
        let is_quiet = self.failure.is_none()
            && self.close_calls.is_empty()
            && self.growing.is_empty()
            && self.reserved_growth.is_none()
            && self.waiting.is_none();
        if is_quiet && history.growth_at(history.end()).is_some() {
            parts.add(Topic::Quiet, None, |out| {
                writeln!(out, "  no allocations failed, and nothing kept growing")
            })?;
        }
        self.add_growth(&sites, &mut parts)?;
        self.add_holders(&mut parts)?;
        // How to return a pool's memory is the advice then.
        let is_advised = self.is_cause(|kind| kind == CauseKind::Unusable(Verdict::Elsewhere));
        let place = Place::moment("state", history.end());
        parts.add(Topic::Pools, Some(place), |out| {
            print_pools(&self.pools, N_POOLS, &sites, !is_advised, out)
        })?;
        Ok(parts.all)
    }

    /// Adds which request failed, and its causes.
    fn add_failure(&self, parts: &mut Parts<'_>) -> io::Result<()> {
        let Some(failure) = &self.failure else { return Ok(()) };
        let (history, moment) = (self.history, failure.report().totals.moment);
        parts.add(Topic::Failure, Some(Place::moment("timeline", moment)), |out| {
            writeln!(out)?;
            print_failure(history, failure, out)
        })?;
        for (number, cause) in (1..).zip(failure.causes().iter().take(N_CAUSES)) {
            let view = match cause.kind {
                CauseKind::Grew | CauseKind::Full => "stacks",
                CauseKind::Unusable(_) => "state",
                _ => "timeline",
            };
            let place = Place::moment(view, moment);
            parts.add(Topic::Cause, Some(place), |out| print_cause(number, cause, out))?;
        }
        match failure.causes().get(N_CAUSES..).unwrap_or_default() {
            [] => Ok(()),
            rest => parts.add(Topic::Cause, Some(Place::moment("timeline", moment)), |out| {
                let kinds: Vec<&str> = rest.iter().map(|cause| cause.kind.name()).collect();
                writeln!(out, "and {}: {}", count(rest.len(), "more cause"), kinds.join(", "))
            }),
        }
    }

    /// Adds the sites that grow. Growth until a failed request is among its causes.
    fn add_growth(&self, sites: &Sites<'_>, parts: &mut Parts<'_>) -> io::Result<()> {
        let (history, bold) = (self.history, parts.page.bold());
        if self.is_cause(|kind| kind == CauseKind::Grew) {
            return Ok(());
        }
        for (said, text) in claims(history, &self.growing) {
            let place = Place::moment("stacks", history.end());
            parts.add(Topic::Growth, Some(place), |out| {
                writeln!(out)?;
                print_text(format!("{bold}{text}{bold:#}"), out)
            })?;
            parts.add(Topic::Sites, Some(Place::moment("stacks", history.end())), |out| {
                writeln!(out, "{}", Sites::heading(out))?;
                let row = |site: &LeakSite| {
                    let share = percent(site.bytes, self.end.allocated_bytes);
                    figures(share, Bytes(site.bytes), site.n_live)
                };
                let listed = said.into_iter().take(N_SITES);
                print_rows(listed.map(|site| (row(site), sites, &site.site)), out)
            })?;
        }
        Ok(())
    }

    /// Adds the largest holders at the peak.
    fn add_holders(&self, parts: &mut Parts<'_>) -> io::Result<()> {
        if self.holders.is_empty() {
            return Ok(());
        }
        let (bold, has_events) = (parts.page.bold(), !self.history.entries().is_empty());
        let at = if has_events { "peak" } else { "end" };
        let place = Place::moment("stacks", if has_events { self.peak.moment } else { self.end.moment });
        parts.add(Topic::Sites, Some(place), |out| {
            writeln!(out, "\n{bold}largest sites at the {at} ({} in all){bold:#}", self.holders.len())?;
            writeln!(out, "{}", Sites::heading(out))?;
            let listed = &self.holders[..self.holders.len().min(N_SITES)];
            Sites::new(self.stacks(), 3).print_groups(listed, self.peak.active_bytes, out)
        })
    }

    /// Whether a cause of the failed request that is printed is one of these.
    fn is_cause(&self, is: impl Fn(CauseKind) -> bool) -> bool {
        let causes = self.failure.as_ref().map_or_else(Vec::new, Explanation::causes);
        causes.iter().take(N_CAUSES).any(|cause| is(cause.kind))
    }

    /// Adds what memory is kept for nothing: pending, on streams, and step by step. For a failed request it is among the
    /// causes.
    fn add_kept(&self, sites: &Sites<'_>, parts: &mut Parts<'_>) -> io::Result<()> {
        let mut growth = self.reserved_growth.as_ref();
        let mut found = Vec::new();
        if self.failure.is_some() {
            growth = growth.filter(|_| self.idle_streams.is_empty());
        } else {
            found.extend(self.waiting.as_ref().map(|waiting| finding(waiting, "", sites)));
            for idle in &self.idle_streams {
                // What one call does on its streams is reported once.
                let pace = growth.take_if(|growth| growth.site == idle.site);
                let more = pace
                    .map_or_else(String::new, |growth| format!("; their memory grew by {}", growth.pace()));
                found.push(finding(idle, &more, sites));
            }
        }
        found.extend(growth.map(|growth| finding(growth, "", sites)));
        let place = || Some(Place::moment("state", self.history.end()));
        found.iter().try_for_each(|text| parts.line(Topic::Kept, place(), text))
    }

    /// Returns which request almost failed, the last if there are several.
    fn close_call(&self, call: &CloseCall) -> String {
        let n = self.close_calls.len();
        let times = if n > 1 { format!(", the last of {n} times") } else { String::new() };
        let refused = refused(call);
        let in_use = Bytes(self.history.totals_at(refused).active_bytes);
        let asked = self.history.entries()[call.entry].stack.map_or_else(String::new, |stack| {
            format!(" by {}", Sites::new(self.history, 2).plain(&Site::Stack(stack)))
        });
        format!(
            "almost out of memory {}: with {in_use} in use, the device refused a request for {}{asked}, and \
             granted it once {} of cache had been released{times}",
            moment::words(self.history, refused),
            Bytes(call.requested_bytes),
            Bytes(call.released_bytes),
        )
    }

    /// Adds the memory at the peak and, if that was another moment, at the end.
    fn add_totals(&self, parts: &mut Parts<'_>) -> io::Result<()> {
        let (history, peak, end) = (self.history, &self.peak, &self.end);
        let line = |name: &str, totals: &Totals| {
            let used = used_and_pending(totals, history.device());
            format!("  {name:5} {used}, {} reserved", Bytes(totals.reserved_bytes))
        };
        let trust = history.trust();
        let at_peak = Some(Place::moment("timeline", peak.moment));
        if let Some((peak, _)) = &self.earlier {
            let text = format!("  peak  {}", moment::earlier(history, peak));
            parts.add(Topic::Peak, None, |out| print_wrapped(&text, 8, out))?;
        } else if !history.entries().is_empty() {
            let of = if trust.knows_peak() { String::new() } else { format!(" {},", of_the_last(&trust)) };
            let text = format!("{},{of} {}", line("peak", peak), moment::words(history, peak.moment));
            parts.add(Topic::Peak, at_peak, |out| print_wrapped(&text, 8, out))?;
        }
        if self.earlier.is_some() || peak.moment != end.moment || history.entries().is_empty() {
            let place = Place::moment("timeline", end.moment);
            parts.add(Topic::End, Some(place), |out| writeln!(out, "{}", line("end", end)))?;
        }
        match self.most_reserved.reserved_bytes {
            most if most > peak.reserved_bytes => {
                let place = Place::moment("timeline", self.most_reserved.moment);
                parts.add(Topic::Reserved, Some(place), |out| {
                    writeln!(out, "  most  {} reserved", Bytes(most))
                })
            }
            _ => Ok(()),
        }
    }
}

/// Returns the moment before the cache was released for a request that almost failed.
fn refused(call: &CloseCall) -> Moment {
    call.first_release.checked_sub(1).map_or(Moment::START, Moment::after)
}

/// Which devices of a file to suggest, so that a command about them has an answer.
#[derive(Default)]
pub(crate) struct NextSteps {
    has_oom: bool,
    has_growing: bool,
    has_history: bool,
    has_memory: bool,
    is_contradictory: bool,
}

impl NextSteps {
    pub(crate) fn add(&mut self, summary: &Summary<'_>) {
        self.has_oom |= summary.failure.is_some();
        self.has_growing |= !summary.growing.is_empty();
        self.has_history |= !summary.history.entries().is_empty();
        self.has_memory |= summary.most_reserved.reserved_bytes > 0 || summary.peak.active_bytes > 0;
        self.is_contradictory |= summary.history.trust().n_contradictions > 0;
    }

    /// Returns the commands to type next, each with what it shows.
    pub(crate) fn commands(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let of_memory =
            if self.has_history { "what holds the memory at the peak" } else { "what holds the memory" };
        let commands = [
            (self.is_contradictory, "validate", "the rules that the file breaks"),
            (self.has_oom, "oom", "why the request failed"),
            (self.has_memory, "top", of_memory),
            (self.has_growing, "leaks", "what grows"),
            (self.has_history, "timeline", "memory over time"),
            (self.has_memory, "fragmentation", "reserved memory that no block uses"),
        ];
        commands.into_iter().filter(|(fits, ..)| *fits).map(|(_, command, what)| (command, what)).take(4)
    }
}
