//! `memreel gate`: limits for continuous integration.

#![forbid(unsafe_code)]

mod baseline;
mod check_line;
mod doubts;
mod junit;
mod kept_figures;
mod whole_run;

use std::{
    borrow::Cow,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use memreel_snapshot::{
    Snapshot,
    analysis::{By, Check, DeviceHistory, Figures, Group, Limits, Measure, devices},
    history::Scopes,
    pickle,
};
use serde_json::json;

use baseline::{Baseline, BaselineFile};
use check_line::line;
use doubts::Doubts;
use junit::{Gated, junit};
use kept_figures::KeptFigures;
use whole_run::FilesAndRuns;

use crate::{
    exit::Exit,
    failure::Failure,
    input::{
        Opener,
        each::{self, each_device_of},
        name,
        run_file::runs_in,
    },
    options::{
        Input,
        moment::{earlier, of_the_last},
        output, replaces_no_snapshot,
    },
    text::{
        Page, Sites, bytes, clean, count, print_line, print_text, print_wrapped, share, sites::owner_heading,
    },
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Peaks are computed from the recorded events, in requested bytes. They do not
depend on the machine's speed, but may depend on how threads are scheduled.
`peak` is the most memory in use (see `memreel top --help`), and `live` is what
is still allocated at the end. Fragmentation is the percentage of reserved
memory that is not in any block when reserved memory peaks.

A baseline contains the figures of an older run. It is either that run's
snapshot or FILE.json, a summary of a few lines that is meant to be committed.
The peak, live and reserved figures may exceed the baseline by at most the
tolerance. A heap's reserved memory is not compared, because it differs from run
to run. The gate fails if a device is missing from the baseline. --max-owner
limits what an owner has allocated from the device, as listed by `memreel
owners`; with --baseline, each OWNER of a --max-owner is also compared with its
figure in the baseline. A missing owner counts as 0 bytes, and a note says so.

FILE may also stand for a whole run: the index that `memreel record` writes next
to its snapshots (run.memreel for run.pickle), or the folder that contains it.
The limits then apply to each process of the run. Small helper processes are
listed only if they fail a check. The gate also fails if any process was not
recorded; with --allow-unrecorded, it checks only those that were.

The gate fails for a file without a history, because nothing was measured; with
--allow-no-history, it checks the memory at the end. It also fails if a limit
names a scope that does not occur in the file. If the --baseline file does not
exist, the command fails. To create it, run the command with --update-baseline
on a run that you trust, and commit the file; it is written only if the run is
within the other limits.

A history is complete if nothing was allocated on the device when recording
started, no events were lost, every allocation and free was recorded (no
--min-size, no --sample, and no skip_actions in PyTorch), and the events are
consistent. An incomplete history may hide a higher peak, and a program that
failed, or in which a request failed, may need more memory than it had. In these
cases, the gate checks the figures that are known, and a note says what is not;
with --strict, it fails instead. The same applies if the baseline comes from
such a run. If the ring (the bounded list of events) lost events, or the file covers
only part of a history, the peak in the missing part is unknown, and the gate
fails; with --allow-partial, it checks the events that the file contains. For a
heap recorded with `memreel record`, --max-peak still covers the whole run. A
program counts as failed if its exit status was not 0; the status is stored in
the snapshot of the program that `memreel record` started.

Sizes: KiB, MiB and GiB (or just K, M and G) are powers of 1024, as in PyTorch's
settings (max_split_size_mb:64 is 64 MiB); kB, MB and GB are powers of 1000.

Examples:
  memreel gate --max-peak 10GiB --max-fragmentation 20% snapshot.pickle
  memreel gate --baseline old.json --tolerance 2% --junit gate.xml new.pickle
  memreel gate --max-peak 20GiB --max-peak forward=10GiB snapshot.pickle
  memreel gate --strict --baseline base.json --update-baseline new.pickle
  memreel gate --max-owner nccl=1GiB --max-owner driver:context=600MiB a.pickle
  memreel gate --max-peak 2GiB run.memreel      every process of a run

Exit status: 0 within all limits; 2 usage error, or no limit given; 3 a file
cannot be read or written; 4 a limit was exceeded, or nothing was measured.")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,

    /// Allow at most this much in use at any moment: 10GiB, 512MiB, 1.5GiB or a number of bytes. To
    /// limit a scope, use, for example, forward=10GiB. May be repeated
    #[arg(long, value_name = "[SCOPE=]BYTES", value_parser = peak)]
    max_peak: Vec<Peak>,

    /// Allow at most this much allocated at the end
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse_or_zero)]
    max_live: Option<u64>,

    /// Allow at most this much reserved at any moment
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse_or_zero)]
    max_reserved: Option<u64>,

    /// Allow at most this percentage of reserved memory to be outside any block at the moment when
    /// reserved memory is highest
    #[arg(long, value_name = "PERCENT", value_parser = share::parse)]
    max_fragmentation: Option<f64>,

    /// Allow an owner at most this much device memory at any moment, for example nccl=1GiB; may be repeated
    #[arg(long, value_name = "OWNER=BYTES", value_parser = owner)]
    max_owner: Vec<(String, u64)>,

    /// Use an older run's figures as limits: its snapshot, or FILE.json from --update-baseline
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,

    /// Write the --baseline file instead of comparing with it. If its name ends in .json, it contains the
    /// figures and the largest call sites; otherwise, it is the snapshot with up to 20 frames per stack
    #[arg(long, requires = "baseline")]
    update_baseline: bool,

    /// If no history was recorded, check the memory at the end instead of failing
    #[arg(long)]
    allow_no_history: bool,

    /// If events were lost or cut off, check the remaining ones instead of failing
    #[arg(long)]
    allow_partial: bool,

    /// If some processes of a run were not recorded, check the others instead of failing
    #[arg(long)]
    allow_unrecorded: bool,

    /// Allow figures to exceed the baseline by up to this percentage
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = share::parse, requires = "baseline")]
    tolerance: f64,

    /// Fail if the figures may be too low: a history is incomplete, the program failed, or a request failed
    #[arg(long)]
    strict: bool,

    /// Write the results to this file as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// The most bytes in use, of all moments or of those in a scope.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Peak {
    scope: Option<String>,
    most_bytes: u64,
}

fn peak(text: &str) -> Result<Peak, String> {
    let (scope, bytes) = match text.rsplit_once('=') {
        Some(("", _)) => return Err(format!("{text:?} has no scope name; use for example forward=10GiB")),
        Some((scope, bytes)) => (Some(scope.to_owned()), bytes),
        None => (None, text),
    };
    Ok(Peak { scope, most_bytes: bytes::parse_or_zero(bytes)? })
}

fn owner(text: &str) -> Result<(String, u64), String> {
    match text.split_once('=') {
        Some((owner, bytes)) if !owner.is_empty() => Ok((owner.to_owned(), bytes::parse_or_zero(bytes)?)),
        _ => Err(format!("{text:?} is not an owner and a size; use for example nccl=1GiB")),
    }
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    if let Some(path) = &options.junit {
        replaces_no_snapshot(path, options.input.files.iter().chain(&options.baseline))?;
        // Without an answer, none from an earlier run may remain.
        pickle::remove(path).map_err(|error| Failure::unwritable(path, error))?;
    }
    let limits = options.limits();
    if limits == Limits::new() && options.baseline.is_none() {
        return Err(Failure::usage("no limit given; use for example --max-peak 10GiB or --baseline FILE"));
    }
    let update = options.updated()?;
    let baseline = options
        .baseline
        .as_ref()
        .filter(|_| update.is_none())
        .map(|path| BaselineFile::open(path, opener))
        .transpose()?;
    let FilesAndRuns { files, runs } = FilesAndRuns::of(&options.input.files, opener)?;
    let of_baseline = baseline.as_ref().map(Baseline::new);
    let mut gate = Gate { options, limits, of_baseline, results: Vec::new(), measured: None };
    let mut exit = Exit::Fine;
    if !files.files.is_empty() || !files.broken.is_empty() {
        exit = each_device_of(files, &options.input, opener, out, |asked, out| gate.check(asked, out))?;
    }
    if !matches!(exit, Exit::Fine | Exit::GateFailed) {
        let why = "a file gave no result; the log shows which one, and why".to_owned();
        gate.results.push(Gated::of_files("files", "answered", why));
    }
    for run in &runs {
        let check = |asked: &each::DeviceOfFile<'_>, out: &mut Page| gate.check(asked, out);
        let (found, failed) = run.check(&options.input, opener, options.allow_unrecorded, check, out)?;
        gate.results.extend(failed);
        exit = exit.max(found);
    }
    let Gate { results, measured, .. } = gate;
    if let Some(path) = &options.junit
        && let Err(failure) = output::replace(path, |file| file.write_all(junit(&results).as_ref()))
    {
        return Ok(exit.max(failure.report()?));
    }
    if let (Some(path), Exit::Fine, Some(snapshot)) = (update, exit, measured) {
        baseline::write(path, &snapshot)?;
        if !options.input.json {
            writeln!(out, "wrote {}; commit it", clean(&name(path)))?;
        }
    }
    Ok(exit)
}

/// What is compared with the limits, one device after another.
struct Gate<'a> {
    options: &'a Options,
    limits: Limits,
    of_baseline: Option<Baseline<'a>>,
    results: Vec<Gated>,
    /// The last snapshot.
    measured: Option<Arc<Snapshot>>,
}

impl Gate<'_> {
    /// Compares a device of a file, and prints it.
    fn check(&mut self, asked: &each::DeviceOfFile<'_>, out: &mut Page) -> Result<Exit, Failure> {
        let Gate { options, limits, of_baseline, .. } = self;
        let (opened, device, history) = (asked.opened, asked.device, asked.history());
        self.measured = Some(opened.snapshot.clone());
        let figures = history.figures();
        let mut checks = figures.check(limits);
        checks.extend(history.check_owners(limits));
        checks.extend(history.check_scopes(limits));
        let absence = history.trust().absence.map(|absence| absence.to_string());
        let mut failures = options.unmeasured(absence.as_deref(), "");
        failures.extend(unknown_scopes(history, limits));
        let mut unsure = Doubts::of(history).about("", &checks);
        let owners = &options.max_owner;
        let before =
            of_baseline.as_ref().map(|baseline| baseline.counterpart(opened, device, !owners.is_empty()));
        let before: Option<Cow<'_, KeptFigures>> = match before.transpose() {
            Ok(before) => before,
            Err(why) => {
                failures.push(("baseline", why));
                None
            }
        };
        if let Some(before) = &before {
            checks.extend(before.check(history, &figures, owners, options.tolerance));
            failures.extend(options.unmeasured(before.absence.as_deref(), "baseline: "));
            unsure.extend(before.doubts.about("baseline: ", &checks));
        }
        failures.extend(options.partial(history, &checks));
        let is_over = checks.iter().any(|check| !check.is_passed);
        let is_doubted = options.strict && !unsure.is_empty();
        let is_failed = is_over || is_doubted || !failures.is_empty();
        if options.input.json {
            let warnings: Vec<&String> = failures.iter().map(|(_, why)| why).chain(&unsure).collect();
            let answer = json!({"is_passed": !is_failed, "checks": checks, "warnings": warnings});
            print_line(&opened.name, device, &answer, out)?;
        } else {
            for (_, why) in &failures {
                print_wrapped(&format!("FAILED  {why}"), 8, out)?;
            }
            print(history, &figures, &checks, &unsure, out)?;
            if is_doubted {
                writeln!(out, "FAILED  the figures may be too low (--strict)")?;
            }
            if let (Some(baseline), Some(before)) = (&of_baseline, &before) {
                baseline.print_growth(opened, (history, &figures), &checks, before, out)?;
            }
        }
        failures.extend(is_doubted.then(|| ("strict", unsure.join("; "))));
        let most = options.junit.as_ref().and_then(|_| holds_most(history, &figures, &checks));
        let place = format!("{}, device {device}", opened.name);
        self.results.push(Gated { place, checks, most, failures });
        Ok(if is_failed { Exit::GateFailed } else { Exit::Fine })
    }
}

impl Options {
    fn limits(&self) -> Limits {
        let whole = self.max_peak.iter().filter(|peak| peak.scope.is_none()).map(|peak| peak.most_bytes);
        let limits = Limits::new()
            .peak_bytes(whole.min())
            .live_bytes(self.max_live)
            .reserved_bytes(self.max_reserved)
            .fragmentation_percent(self.max_fragmentation);
        let limits =
            self.max_owner.iter().fold(limits, |limits, (owner, most)| limits.owner_bytes(owner, *most));
        self.max_peak.iter().fold(limits, |limits, peak| match &peak.scope {
            Some(scope) => limits.scope_bytes(scope, peak.most_bytes),
            None => limits,
        })
    }

    /// Returns the file of --update-baseline.
    fn updated(&self) -> Result<Option<&Path>, Failure> {
        match (&self.baseline, &self.input.files[..]) {
            (Some(path), [file]) if self.update_baseline && runs_in(file).is_empty() => Ok(Some(path)),
            _ if self.update_baseline => Err(Failure::usage(
                "--update-baseline writes one snapshot; give one snapshot file, not a run",
            )),
            _ => Ok(None),
        }
    }

    /// Returns why nothing was measured, if no history was recorded.
    fn unmeasured(&self, absence: Option<&str>, whose: &str) -> Vec<(&'static str, String)> {
        let absence = absence.filter(|_| !self.allow_no_history).map(clean);
        let why = |absence| format!("{whose}{absence} (--allow-no-history checks the memory at the end)");
        absence.map(|absence| ("history", why(absence))).into_iter().collect()
    }
}

impl Options {
    /// Returns why figures do not cover the whole run, if some do not.
    fn partial(&self, history: &DeviceHistory<'_>, checks: &[Check]) -> Option<(&'static str, String)> {
        let mut unknown: Vec<String> =
            history.known_in_part(checks).iter().map(|check| clean(&check.what).into_owned()).collect();
        unknown.dedup();
        if self.allow_partial || unknown.is_empty() {
            return None;
        }
        let (trust, what) = (history.trust(), unknown.join(", "));
        let missing = match trust.n_lost.max(trust.n_cut) {
            0 => "older ones".to_owned(),
            n => count(n, "other"),
        };
        let last = of_the_last(&trust);
        let why = format!(
            "{what} is only known {last}, because {missing} are not in the file; record with a larger ring, \
             or check what is there with --allow-partial"
        );
        Some(("partial", why))
    }
}

/// Returns the limits of scopes that no device of the file has: their names may be misspelt.
fn unknown_scopes(history: &DeviceHistory<'_>, limits: &Limits) -> Vec<(&'static str, String)> {
    let snapshot = history.snapshot();
    let has = |scope: &str| {
        let entries = |device| Scopes::new(snapshot, device).entries_in(scope);
        history.scopes().entries_in(scope).contains(&true)
            || devices(snapshot).into_iter().any(|device| entries(device).contains(&true))
    };
    let unknown = limits.scopes().filter(|scope| !has(scope));
    unknown
        .map(|scope| ("scope", format!("there is no scope {:?}, so its peak is unknown", clean(scope))))
        .collect()
}

fn print(
    history: &DeviceHistory<'_>,
    figures: &Figures,
    checks: &[Check],
    unsure: &[String],
    out: &mut Page,
) -> io::Result<()> {
    let red = out.red();
    for check in checks {
        if check.is_passed {
            print_wrapped(&format!("ok      {}", line(check)), 8, out)?;
        } else {
            print_wrapped(&format!("{red}FAILED{red:#}  {}", line(check)), 8, out)?;
        }
    }
    unsure.iter().try_for_each(|warning| print_text(warning, out))?;
    print_unknown_owners(history, checks, out)?;
    let over = checks.iter().find(|check| !check.is_passed);
    let Some(over) = over else { return Ok(()) };
    let is_of_owner = over.owner().is_some();
    let heading = if is_of_owner { owner_heading(out) } else { Sites::heading(out) };
    if let Some(peak) = history.earlier_peak_of(over) {
        let (stacks, when) = (peak.stacks(), earlier(history, peak));
        writeln!(out, "the largest sites of {when}:\n{heading}")?;
        let groups = peak.top(&stacks, By::Stack).unwrap_or_default();
        return Sites::new(&stacks, 4).print_groups(&groups[..groups.len().min(5)], peak.bytes, out);
    }
    let (moment, sites) = (over.moment(figures, history), Sites::new(history, 4));
    let when = crate::options::moment::words(history, moment);
    let that = if moment == history.end() { "" } else { "at that moment, " };
    writeln!(out, "the largest sites {that}{when}:\n{heading}")?;
    let groups = history.top(moment, grouping(over));
    let all_bytes = match is_of_owner {
        true => Group::sum(&groups).0,
        false => history.totals_at(moment).active_bytes,
    };
    sites.print_groups(&groups[..groups.len().min(5)], all_bytes, out)
}

/// What is blamed for a figure.
fn grouping(check: &Check) -> By {
    if check.owner().is_some() { By::Owner } else { By::Stack }
}

/// Returns who holds the most where the first limit is exceeded.
fn holds_most(history: &DeviceHistory<'_>, figures: &Figures, checks: &[Check]) -> Option<String> {
    let over = checks.iter().find(|check| !check.is_passed)?;
    if let Some(peak) = history.earlier_peak_of(over) {
        let stacks = peak.stacks();
        let most = peak.top(&stacks, By::Stack)?.into_iter().next()?;
        return Some(Sites::new(&stacks, 4).plain(&most.site));
    }
    let most = history.top(over.moment(figures, history), grouping(over)).into_iter().next()?;
    Some(Sites::new(history, 4).plain(&most.site))
}

/// Reports the owners of limits that hold nothing at any moment: their names may be misspelt.
fn print_unknown_owners(history: &DeviceHistory<'_>, checks: &[Check], out: &mut Page) -> io::Result<()> {
    let of_owners = checks.iter().filter(|check| !check.is_baseline && check.actual == Measure::Bytes(0));
    let nothing: Vec<&str> = of_owners.filter_map(Check::owner).collect();
    if nothing.is_empty() {
        return Ok(());
    }
    let known: Vec<String> =
        history.owner_peaks().into_iter().map(|peak| clean(&peak.owner).into_owned()).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    nothing.iter().try_for_each(|owner| {
        print_text(
            format!("note: {} holds no memory from the device; the owners that do: {known}", clean(owner)),
            out,
        )
    })
}
