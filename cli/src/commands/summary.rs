//! `memreel summary`, for which `memreel FILE` is short: what a snapshot is, what it shows, and what to ask next.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel::whatif::explain;
use memreel_snapshot::analysis::{
    By, Claim, DeviceHistory, EarlierPeak, Group, Histories, LeakSite, Releases, Totals, oom::OomReport,
};
use serde_json::json;

use super::{fragmentation::print_idle_pools, leaks::claims, oom::print_causes};
use crate::{
    bytes::Bytes,
    colour::bold,
    each::{Asked, each_file},
    exit::Exit,
    failure::Failure,
    fit::{self, columns, wrapped},
    input::Opened,
    json::{self, List, WithList},
    moment::{self, of_the_last},
    options::Input,
    rest::rest,
    sites::{Sites, figures, print_rows},
    text::{clean, count, of_it_pending, percent, shell_word},
    warnings::{absence, print_warnings, program_failure},
    width::width_left,
};

/// How many causes of a failed request are shown.
const N_CAUSES: usize = 2;

/// How many sites of a kind are shown.
const N_SITES: usize = 3;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Shows who wrote the file, its devices, whether their histories are whole, the
memory at the peak and at the end, why the last request failed, the sites that
grow, and the largest holders at the peak; then the commands that show
more.

Example:
  memreel summary snapshot.pickle
  memreel snapshot.pickle

Exit status: 0 answered, 2 wrong usage, 3 a file that cannot be read or is not a
snapshot.")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,
}

pub(crate) fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    let input = &options.input;
    let mut n_files = 0;
    each_file(&input.files, |opened| {
        let devices = opened.devices(input.device)?;
        let n_devices = devices.len();
        if !input.json {
            let gap = if n_files > 0 { "\n" } else { "" };
            writeln!(out, "{gap}{}", wrapped(&(head(opened, devices.len()) + &absence(opened)), 2))?;
        }
        n_files += 1;
        let histories = Histories::new(&opened.snapshot);
        let mut next = Next::default();
        for device in devices {
            let asked = Asked::new(opened, &histories, device, n_devices > 1);
            let summary = Summary::new(asked.history());
            next.add(&summary);
            if input.json {
                summary.print_json(&asked, out)?;
            } else {
                summary.print(out)?;
            }
        }
        if !input.json {
            next.print(opened, out)?;
        }
        Ok(Exit::Fine)
    })
}

/// Returns a line about the file.
fn head(opened: &Opened, n_devices: usize) -> String {
    let (bold, setting) = (bold(), |key| opened.setting(key).unwrap_or_default());
    let by = match setting("memreel_version") {
        "" => Releases::of(&opened.snapshot)
            .map_or_else(|| "in PyTorch's format".to_owned(), |releases| format!("of {releases}")),
        version => format!("of memreel {}", clean(version)),
    };
    let conf = match setting("PYTORCH_CUDA_ALLOC_CONF") {
        "" => String::new(),
        conf => format!(", settings {}", clean(conf)),
    };
    let failed = program_failure(&opened.snapshot).map_or_else(String::new, |failed| format!("; {failed}"));
    let (name, devices) = (clean(&opened.name), count(n_devices, "device"));
    format!("{bold}{name}{bold:#}: a snapshot {by}, {devices}{conf}{failed}")
}

/// The findings about one device.
struct Summary<'a> {
    history: &'a DeviceHistory<'a>,
    peak: Totals,
    end: Totals,
    most_reserved: Totals,
    oom: Option<OomReport>,
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
            oom: history.oom(),
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
        let oom = self.oom.as_ref().map(|report| {
            json!({
                "event": report.entry,
                "requested_bytes": report.requested_bytes,
                "verdict": report.verdict,
                "why": report.why(),
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
            "n_growing": self.growing.len(),
        });
        let growing = sites.first_with_frames(&self.growing, N_SITES);
        let of_holders = Sites::new(self.stacks(), N_SITES);
        let holders = of_holders.first_with_frames(&self.holders, N_SITES);
        let rest = rest(&self.holders, N_SITES, |group| group.bytes);
        let holders = WithList { head: json!({}), list: List("holders", &holders), rest };
        asked.print_json(&WithList { head, list: List("growing", &growing), rest: holders }, out)
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let (history, bold) = (self.history, bold());
        #[allow(clippy::cast_precision_loss)]
        let seconds = history.span_us() as f64 / 1e6;
        let events = match history.entries().len() {
            0 => "no history".to_owned(),
            n => format!("{} in {seconds:.3} s", count(n, "event")),
        };
        let whole = if history.trust().is_whole() { ", the history is whole" } else { "" };
        writeln!(out, "\n{bold}device {}{bold:#}: {events}{whole}", history.device())?;
        self.print_totals(out)?;
        print_warnings(history, out)?;
        print_idle_pools(&history.idle_pools(history.end()), out)?;
        let sites = Sites::new(history, 3);
        if let Some(report) = &self.oom {
            writeln!(out)?;
            print_causes(history, &explain(history, report.clone()), N_CAUSES, out)?;
        }
        if self.oom.is_none() && self.growing.is_empty() && history.growth_at(history.end()).is_some() {
            writeln!(out, "  no request failed, and no site grew beyond what it held before")?;
        }
        for (said, text) in claims(history, &self.growing) {
            writeln!(out, "\n{}", wrapped(&format!("{bold}{}{bold:#}: {text}", said[0].claim.name()), 2))?;
            writeln!(out, "{}", Sites::heading())?;
            let row = |site: &LeakSite| {
                let share = percent(site.bytes, self.end.allocated_bytes);
                figures(share, Bytes(site.bytes), site.n_live)
            };
            let listed = said.into_iter().take(N_SITES);
            print_rows(listed.map(|site| (row(site), &sites, &site.site)), out)?;
        }
        if !self.holders.is_empty() {
            writeln!(out, "\n{bold}the most at the peak{bold:#}, of {}", count(self.holders.len(), "site"))?;
            writeln!(out, "{}", Sites::heading())?;
            let listed = &self.holders[..self.holders.len().min(N_SITES)];
            Sites::new(self.stacks(), 3).print_groups(listed, self.peak.active_bytes, out)?;
        }
        Ok(())
    }

    /// Prints the memory at the peak and, if that was another moment, at the end.
    fn print_totals(&self, out: &mut impl Write) -> io::Result<()> {
        let (history, peak, end) = (self.history, &self.peak, &self.end);
        let line = |name: &str, totals: &Totals| {
            let [active, reserved] = [totals.active_bytes, totals.reserved_bytes].map(Bytes);
            format!("  {name:5} {active} in use, {reserved} reserved{}", of_it_pending(totals))
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

/// What the devices of a file have, so that a command about it answers something.
#[derive(Default)]
struct Next {
    has_oom: bool,
    has_growing: bool,
    has_history: bool,
    is_contradictory: bool,
}

impl Next {
    fn add(&mut self, summary: &Summary<'_>) {
        self.has_oom |= summary.oom.is_some();
        self.has_growing |= !summary.growing.is_empty();
        self.has_history |= !summary.history.entries().is_empty();
        self.is_contradictory |= summary.history.trust().n_contradictions > 0;
    }

    /// Prints the commands to type next.
    fn print(&self, opened: &Opened, out: &mut impl Write) -> io::Result<()> {
        let commands = [
            (self.is_contradictory, "validate", "the rules that the file breaks"),
            (self.has_oom, "oom", "why the request failed"),
            (true, "top", "what holds the memory at the peak"),
            (self.has_growing, "leaks", "what grows"),
            (self.has_history, "timeline", "memory over the history"),
            (true, "fragmentation", "reserved memory that no block uses"),
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
        writeln!(out, "  {:34}  memreel help", "all questions")
    }
}
