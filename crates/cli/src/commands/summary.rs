//! `memreel summary`, for which `memreel FILE` is short: what a snapshot is, what it shows, and what to do next.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel::whatif::{CloseCall, close_calls, explain};
use memreel_snapshot::{
    analysis::{
        By, Claim, DeviceHistory, EarlierPeak, Group, Histories, IdleStreams, LeakSite, PoolUse,
        ReservedGrowth, Site, Totals, Waiting,
        oom::{CauseKind, Explanation, Verdict},
    },
    history::{Absence, Moment},
};
use serde_json::json;

use crate::{
    exit::Exit,
    failure::Failure,
    findings::{causes::print_causes, growth::claims, logged::answer_logs},
    input::{Opened, each::Asked, each_file},
    options::{
        Input,
        moment::{self, of_the_last},
    },
    text::{
        Bytes, List, Sites, WithList, bold, clean, count,
        fit::{self, columns},
        json, labels, percent,
        pool_table::{print_idle_pools, print_pools},
        print_text, print_warnings,
        rest::rest,
        shell_word,
        sites::{figures, print_rows},
        stream_table::{finding, print_findings},
        used_and_pending,
        warnings::{absence, program_failure},
        width::width_left,
        wrapped,
    },
};

/// How many causes of a failed request are shown.
const N_CAUSES: usize = 2;

/// How many sites of a kind are shown.
const N_SITES: usize = 3;

/// How many pools are shown.
const N_POOLS: usize = 4;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The output shows who wrote the file, its devices, whether their histories are
complete, the memory at the peak and at the end, why the last request failed,
the sites that grow, and the largest holders at the peak, followed by the
commands that show more. A log is explained as by `memreel oom`.

Examples:
  memreel summary snapshot.pickle
  memreel snapshot.pickle
  memreel train.log

Exit status: 0 success; 2 usage error; 3 a file cannot be read or is not a
snapshot.")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,
}

pub(crate) fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    let input = &options.input;
    let (of_logs, files) = answer_logs(input, out)?;
    // A failed request is an answer, as for a snapshot.
    let of_logs = if of_logs == Exit::Broken { Exit::Fine } else { of_logs };
    if files.is_empty() {
        return Ok(of_logs);
    }
    let mut n_files = input.files.len() - files.len();
    let of_files = each_file(&files, |opened| {
        let devices = opened.failed_first(input.device)?;
        let n_devices = devices.len();
        if !input.json {
            let gap = if n_files > 0 { "\n" } else { "" };
            writeln!(
                out,
                "{gap}{}",
                wrapped(&(head(opened, devices.len()) + &absence(&opened.snapshot)), 2)
            )?;
        }
        n_files += 1;
        let histories = Histories::new(&opened.snapshot);
        let (mut next, said) = (Next::default(), Absence::of_file(&opened.snapshot));
        for device in devices {
            let asked = Asked::new(opened, &histories, device, n_devices > 1);
            let summary = Summary::new(asked.history());
            next.add(&summary);
            if input.json {
                summary.print_json(&asked, out)?;
            } else {
                summary.print(said, out)?;
            }
        }
        if !input.json {
            next.print(opened, out)?;
        }
        Ok(Exit::Fine)
    })?;
    Ok(of_logs.max(of_files))
}

/// Returns a line about the file.
fn head(opened: &Opened, n_devices: usize) -> String {
    let (bold, by) = (bold(), opened.writer());
    let conf = match opened.setting("PYTORCH_CUDA_ALLOC_CONF").unwrap_or_default() {
        "" => String::new(),
        conf => format!(", settings {}", clean(conf)),
    };
    let failed = program_failure(&opened.snapshot).map_or_else(String::new, |failed| format!("; {failed}"));
    let (name, devices) = (clean(&opened.name), count(n_devices, "device"));
    if let writer @ ("JAX" | "pprof") = opened.setting("memreel_profile").unwrap_or_default() {
        let live = Bytes(
            opened.snapshot.segments.iter().map(|segment| segment.total_size).fold(0, u64::saturating_add),
        );
        return format!("{bold}{name}{bold:#}: a profile of {writer}, {devices}: {live} live");
    }
    format!("{bold}{name}{bold:#}: a snapshot {by}, {devices}{conf}{failed}")
}

/// The findings about one device.
struct Summary<'a> {
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
    fn new(history: &'a DeviceHistory<'a>) -> Summary<'a> {
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

    fn print_json(&self, asked: &Asked<'_>, out: &mut impl Write) -> io::Result<()> {
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
            "peak": json::figures(&self.peak),
            "peak_is_of_run": trust.knows_peak(),
            "end": json::figures(&self.end),
            "most_reserved": json::figures(&self.most_reserved),
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
        let rest = rest(&self.holders, N_SITES, |group| group.bytes);
        let holders = WithList { head: json!({}), list: List("holders", &holders), rest };
        asked.print_json(&WithList { head, list: List("growing", &growing), rest: holders }, out)
    }

    /// Prints the findings. `said` is what the line about the file has already reported about a missing history; it is
    /// not repeated.
    fn print(&self, said: Option<Absence>, out: &mut impl Write) -> io::Result<()> {
        let (history, bold) = (self.history, bold());
        let events = match history.entries().len() {
            0 => "no history".to_owned(),
            n => count(n, "event") + &moment::span_words(history),
        };
        let whole = if history.trust().is_whole() { ", complete history" } else { "" };
        writeln!(out, "\n{bold}{}{bold:#}: {events}{whole}", labels::device(history.device()))?;
        self.print_totals(out)?;
        match history.trust().absence {
            Some(absence) if said == Some(absence) => writeln!(out, "note: figures are for the end")?,
            _ => print_warnings(history, out)?,
        }
        print_idle_pools(&history.idle_pools(history.end()), out)?;
        let sites = Sites::new(history, 3);
        if let Some(failure) = &self.failure {
            writeln!(out)?;
            print_causes(history, failure, N_CAUSES, out)?;
        }
        if let (None, Some(call)) = (&self.failure, self.close_calls.last()) {
            print_text(self.close_call(call), out)?;
        }
        self.print_kept(&sites, out)?;
        let is_quiet = self.failure.is_none()
            && self.close_calls.is_empty()
            && self.growing.is_empty()
            && self.reserved_growth.is_none()
            && self.waiting.is_none();
        if is_quiet && history.growth_at(history.end()).is_some() {
            writeln!(out, "  no allocations failed, and nothing kept growing")?;
        }
        // Growth until a failed request is among its causes.
        let claims = if self.is_cause(|kind| kind == CauseKind::Grew) {
            Vec::new()
        } else {
            claims(history, &self.growing)
        };
        for (said, text) in claims {
            writeln!(out, "\n{}", wrapped(&format!("{bold}{text}{bold:#}"), 2))?;
            writeln!(out, "{}", Sites::heading())?;
            let row = |site: &LeakSite| {
                let share = percent(site.bytes, self.end.allocated_bytes);
                figures(share, Bytes(site.bytes), site.n_live)
            };
            let listed = said.into_iter().take(N_SITES);
            print_rows(listed.map(|site| (row(site), &sites, &site.site)), out)?;
        }
        if !self.holders.is_empty() {
            let at = if history.entries().is_empty() { "end" } else { "peak" };
            writeln!(
                out,
                "\n{bold}largest at the {at} ({} in all){bold:#}",
                count(self.holders.len(), "site")
            )?;
            writeln!(out, "{}", Sites::heading())?;
            let listed = &self.holders[..self.holders.len().min(N_SITES)];
            Sites::new(self.stacks(), 3).print_groups(listed, self.peak.active_bytes, out)?;
        }
        // How to return a pool's memory is the advice then.
        let is_advised = self.is_cause(|kind| kind == CauseKind::Unusable(Verdict::Elsewhere));
        print_pools(&self.pools, N_POOLS, &sites, !is_advised, out)
    }

    /// Whether a cause of the failed request that is printed is one of these.
    fn is_cause(&self, is: impl Fn(CauseKind) -> bool) -> bool {
        let causes = self.failure.as_ref().map_or_else(Vec::new, Explanation::causes);
        causes.iter().take(N_CAUSES).any(|cause| is(cause.kind))
    }

    /// Prints what memory is kept for nothing: pending, on streams, and step by step. For a failed request it is among
    /// the causes.
    fn print_kept(&self, sites: &Sites<'_>, out: &mut impl Write) -> io::Result<()> {
        let growth = self.reserved_growth.as_ref();
        if self.failure.is_some() {
            return print_findings(growth.filter(|_| self.idle_streams.is_empty()), sites, out);
        }
        print_findings(&self.waiting, sites, out)?;
        let mut growth = growth;
        for idle in &self.idle_streams {
            // What one call does on its streams is reported once.
            let pace = growth.take_if(|growth| growth.site == idle.site);
            let more =
                pace.map_or_else(String::new, |growth| format!("; their memory grew by {}", growth.pace()));
            print_text(finding(idle, &more, sites), out)?;
        }
        print_findings(growth, sites, out)
    }

    /// Returns which request almost failed, the last if there are several.
    fn close_call(&self, call: &CloseCall) -> String {
        let n = self.close_calls.len();
        let times = if n > 1 { format!(", the last of {n} times") } else { String::new() };
        let refused = call.first_release.checked_sub(1).map_or(Moment::START, Moment::after);
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

    /// Prints the memory at the peak and, if that was another moment, at the end.
    fn print_totals(&self, out: &mut impl Write) -> io::Result<()> {
        let (history, peak, end) = (self.history, &self.peak, &self.end);
        let line = |name: &str, totals: &Totals| {
            let used = used_and_pending(totals, history.device());
            format!("  {name:5} {used}, {} reserved", Bytes(totals.reserved_bytes))
        };
        let trust = history.trust();
        if let Some((peak, _)) = &self.earlier {
            writeln!(out, "{}", wrapped(&format!("  peak  {}", moment::earlier(history, peak)), 8))?;
        } else if !history.entries().is_empty() {
            let of = if trust.knows_peak() { String::new() } else { format!(" {},", of_the_last(&trust)) };
            let text = format!("{},{of} {}", line("peak", peak), moment::words(history, peak.moment));
            writeln!(out, "{}", wrapped(&text, 8))?;
        }
        if self.earlier.is_some() || peak.moment != end.moment || history.entries().is_empty() {
            writeln!(out, "{}", line("end", end))?;
        }
        match self.most_reserved.reserved_bytes {
            most if most > peak.reserved_bytes => writeln!(out, "  most  {} reserved", Bytes(most)),
            _ => Ok(()),
        }
    }
}

/// Which devices of a file to suggest, so that a command about them has an answer.
#[derive(Default)]
struct Next {
    has_oom: bool,
    has_growing: bool,
    has_history: bool,
    has_memory: bool,
    is_contradictory: bool,
}

impl Next {
    fn add(&mut self, summary: &Summary<'_>) {
        self.has_oom |= summary.failure.is_some();
        self.has_growing |= !summary.growing.is_empty();
        self.has_history |= !summary.history.entries().is_empty();
        self.has_memory |= summary.most_reserved.reserved_bytes > 0 || summary.peak.active_bytes > 0;
        self.is_contradictory |= summary.history.trust().n_contradictions > 0;
    }

    /// Prints the commands to type next.
    fn print(&self, opened: &Opened, out: &mut impl Write) -> io::Result<()> {
        let commands = [
            (self.is_contradictory, "validate", "the rules that the file breaks"),
            (self.has_oom, "oom", "why the request failed"),
            (
                self.has_memory,
                "top",
                if self.has_history { "what holds the memory at the peak" } else { "what holds the memory" },
            ),
            (self.has_growing, "leaks", "what grows"),
            (self.has_history, "timeline", "memory over time"),
            (self.has_memory, "fragmentation", "reserved memory that no block uses"),
        ];
        let file = if opened.is_stdin { "FILE".to_owned() } else { shell_word(&opened.name) };
        writeln!(out, "\nnext:")?;
        for (_, command, what) in commands.iter().filter(|(fits, ..)| *fits).take(4) {
            let line = format!("  {what:34}  memreel {command} {file}");
            if columns(&line) <= width_left(0) {
                writeln!(out, "{line}")?;
            } else {
                writeln!(out, "  {what}\n{}", fit::command("    ", &["memreel", command, &file]))?;
            }
        }
        writeln!(out, "  {:34}  memreel help", "all commands")
    }
}
