//! `memreel replay`: how much memory a recorded run needs under other allocator settings.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::ArgAction;
use memreel::{
    DeviceId, Error, Snapshot,
    analysis::{DeviceHistory, MarkedFrame, ShownFrames},
    pickle,
    whatif::{Answer, FailedRequest, PeakSpread, Requests, Sweep, grid, replayed},
};
use serde_json::{Value, json};

use crate::{
    bytes::{self, Bytes},
    each::each_file,
    exit::Exit,
    failure::Failure,
    input::Opened,
    options::{Devices, device},
    progress::Progress,
    table::Table,
    text::count,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Runs the requests of the recorded history through an allocator that decides as PyTorch's does, under each
setting. Best fit breaks ties by address, so every setting runs with rising and with falling addresses; the
table shows the lowest and the highest peak if they differ.

Sizes: KiB, MiB, GiB and a bare K, M, G count in 1024s, as PyTorch's settings do (max_split_size_mb:64 is
64 MiB); kB, MB, GB count in 1000s.

Example:
  memreel replay --conf expandable_segments:True --conf max_split_size_mb:128 snapshot.pickle
  memreel replay --sweep --limit 24GiB snapshot.pickle

Exit status: 0 answered, 1 a history that is missing or contradicts itself, 2 wrong usage or an
unknown setting, 3 a file that cannot be read or written.")]
pub(crate) struct Options {
    /// Try this value of PYTORCH_ALLOC_CONF; may be given again. Without it, the recorded one
    #[arg(long, value_name = "SETTING", action = ArgAction::Append)]
    conf: Vec<String>,

    /// Reserve at most this number of bytes on each device: 24GiB, 512MiB, 1.5GiB or bytes
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse)]
    limit: Option<u64>,

    /// Replay this device, or all that have a history
    #[arg(long, value_name = "N|all", default_value = "all", value_parser = device)]
    device: Devices,

    /// Try a grid of settings too, and print the one that needs the least memory
    #[arg(long)]
    sweep: bool,

    /// Write the replayed history to this file as a snapshot; for one setting and one file only
    #[arg(short, long, value_name = "FILE", conflicts_with = "sweep")]
    output: Option<PathBuf>,

    /// Print one JSON object a line, for each setting and device
    #[arg(long)]
    json: bool,

    /// Snapshots with history; `-` is standard input
    #[arg(required = true, value_name = "SNAPSHOT")]
    files: Vec<PathBuf>,
}

pub(crate) fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    if options.output.is_some() && (options.conf.len() > 1 || options.files.len() > 1) {
        return Err(Failure::usage(
            "--output takes the history of one setting; give one --conf and one file",
        ));
    }
    // A wrong setting is reported before a large file is read.
    for conf in &options.conf {
        conf.parse::<memreel::allocator::Settings>().map_err(Failure::usage)?;
    }
    each_file(&options.files, |opened| {
        opened.devices(options.device)?;
        answered(options, opened)?.print(options, out)?;
        Ok(Exit::Fine)
    })
}

/// A snapshot with the answers for each of its devices.
struct Answered<'a> {
    name: &'a str,
    snapshot: &'a Snapshot,
    devices: Vec<(Requests, Vec<Answer>)>,
}

fn answered<'a>(options: &Options, opened: &'a Opened) -> Result<Answered<'a>, Error> {
    let snapshot = &opened.snapshot;
    let requests = devices(options.device, snapshot)?;
    let confs: Vec<Vec<String>> = requests.iter().map(|requests| confs(options, requests)).collect();
    let n_runs: usize =
        requests.iter().zip(&confs).map(|(requests, all)| all.len() * 2 * requests.n_steps()).sum();
    let progress = Progress::new(n_runs as u64);
    let mut devices = Vec::with_capacity(requests.len());
    for (requests, confs) in requests.into_iter().zip(&confs) {
        let add = |done| progress.add(done);
        let sweep = Sweep::new(std::slice::from_ref(&requests)).confs(confs).limit_bytes(options.limit);
        let answers = sweep.on_progress(&add).run()?;
        devices.push((requests, answers));
    }
    drop(progress);
    let answered = Answered { name: &opened.name, snapshot, devices };
    if let Some(path) = &options.output {
        answered.write(path, &confs[0][0], options.limit)?;
    }
    Ok(answered)
}

/// Returns the requests of the devices of `--device`.
fn devices(which: Devices, snapshot: &Snapshot) -> Result<Vec<Requests>, Error> {
    let of = |device: u16| Requests::new(snapshot, DeviceId::from(device));
    if let Devices::One(device) = which {
        return Ok(vec![of(device)?]);
    }
    let traces = snapshot.device_traces.iter().zip(0..=u16::MAX);
    let recorded: Vec<u16> =
        traces.filter(|(trace, _)| !trace.is_empty()).map(|(_, device)| device).collect();
    if recorded.is_empty() {
        // Its error explains what is missing.
        return Ok(vec![of(0)?]);
    }
    recorded.into_iter().map(of).collect()
}

/// Returns the given settings, or the recorded one; with `--sweep`, both and the grid.
fn confs(options: &Options, requests: &Requests) -> Vec<String> {
    let mut confs = options.conf.clone();
    if confs.is_empty() || options.sweep {
        let recorded = requests.recorded().usable_conf().to_owned();
        if !confs.contains(&recorded) {
            confs.insert(0, recorded);
        }
    }
    if options.sweep {
        let missing: Vec<String> =
            grid(options.limit).into_iter().filter(|conf| !confs.contains(conf)).collect();
        confs.extend(missing);
    }
    confs
}

impl Answered<'_> {
    fn write(&self, path: &Path, conf: &str, limit_bytes: Option<u64>) -> Result<(), Error> {
        // Devices may differ in their recorded settings, but a snapshot has one: that of the first device.
        let requests: Vec<&Requests> = self.devices.iter().map(|(requests, _)| requests).collect();
        pickle::save(&replayed(self.snapshot, &requests, conf, limit_bytes)?, path)
    }

    fn print(&self, options: &Options, out: &mut impl Write) -> io::Result<()> {
        for (requests, answers) in &self.devices {
            if options.json {
                answers.iter().try_for_each(|answer| {
                    writeln!(out, "{}", self.line(requests, answer, answers, options))
                })?;
            } else {
                self.text(requests, answers, options, out)?;
            }
        }
        Ok(())
    }

    fn line(&self, requests: &Requests, answer: &Answer, all: &[Answer], options: &Options) -> Value {
        let outcome = &answer.outcome;
        let recorded = requests.recorded();
        let first_oom = outcome.first_oom.map(|oom| {
            let stack: Vec<MarkedFrame<'_>> = self.stack(requests, oom);
            json!({"request": oom.request, "size_bytes": oom.size_bytes, "stack": stack})
        });
        json!({
            "file": self.name,
            "conf": answer.conf,
            "device": answer.device,
            "reserved_peak_bytes": outcome.reserved_peak_bytes,
            "allocated_peak_bytes": outcome.allocated_peak_bytes,
            "requests": requests.len(),
            "num_ooms": outcome.num_ooms,
            "num_alloc_retries": outcome.num_alloc_retries,
            "num_device_alloc": outcome.num_device_alloc,
            "num_device_free": outcome.num_device_free,
            "first_oom": first_oom,
            "reserved_peak_bytes_rising": answer.rising.reserved_peak_bytes,
            "reserved_peak_bytes_falling": answer.falling.reserved_peak_bytes,
            "has_recorded_addresses": answer.has_recorded_addresses,
            "waste_at_peak_bytes": outcome.waste_at_peak_bytes,
            "pre_existing_blocks": requests.n_pre_existing(),
            "pre_existing_bytes": requests.pre_existing_bytes(),
            "pre_existing_blocks_refused": outcome.n_priors_refused,
            "recorded_conf": recorded.conf(),
            "recorded_reserved_peak_bytes": recorded.reserved_peak_bytes,
            "recorded_num_ooms": recorded.num_ooms,
            "is_least": std::ptr::eq(answer, least(all)),
            "confidence": answer.confidence,
            "warnings": self.warnings(requests, options),
        })
    }

    fn text(
        &self,
        requests: &Requests,
        answers: &[Answer],
        options: &Options,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let recorded = requests.recorded();
        writeln!(
            out,
            "{}, device {}: {}, recorded under {} with a peak of {} reserved and {}",
            self.name,
            requests.device(),
            count(requests.len(), "request"),
            name(recorded.conf()),
            Bytes(recorded.reserved_peak_bytes),
            count(recorded.num_ooms, "out-of-memory error"),
        )?;
        let warnings = self.warnings(requests, options);
        warnings.iter().try_for_each(|warning| writeln!(out, "warning: {warning}"))?;
        writeln!(out)?;
        let mut rows: Vec<&Answer> = answers.iter().collect();
        if options.sweep {
            rows.sort_by_key(|answer| answer.rank());
        }
        table(&rows).print(out)?;
        for answer in rows.iter().filter(|answer| answer.outcome.n_priors_refused > 0) {
            let n = answer.outcome.n_priors_refused;
            writeln!(out, "\n{}: no room for {}", name(&answer.conf), count(n, "pre-existing block"))?;
        }
        let mut failures: Vec<FailedRequest> =
            answers.iter().filter_map(|answer| answer.outcome.first_oom).collect();
        failures.sort_unstable_by_key(|oom| oom.request);
        failures.dedup();
        failures.into_iter().try_for_each(|oom| self.failure(requests, oom, out))?;
        if options.sweep { conclusion(recorded.usable_conf(), answers, out) } else { Ok(()) }
    }

    fn warnings(&self, requests: &Requests, options: &Options) -> Vec<String> {
        let mut all = requests.warnings().to_vec();
        if options.limit.is_none() && requests.recorded().num_ooms > 0 {
            let report = DeviceHistory::new(self.snapshot, requests.device()).oom();
            let limit = report.map_or(0, |report| report.could_hold_bytes());
            all.push(format!(
                "the recorded run ran out of memory, but a replay without a limit cannot; try --limit {limit}, which is \
                 what the process could hold when it failed"
            ));
        }
        all
    }

    /// Prints the stack of a failed request. The table shows under which settings it fails.
    fn failure(&self, requests: &Requests, oom: FailedRequest, out: &mut impl Write) -> io::Result<()> {
        let FailedRequest { request, entry, size_bytes, .. } = oom;
        writeln!(out, "\nout of memory at request {request} (entry {entry}), {size_bytes} bytes:")?;
        let stack = self.stack(requests, oom);
        let mut shown = stack.iter().filter(|frame| frame.is_shown).map(|marked| marked.frame);
        shown.try_for_each(|frame| writeln!(out, "    {} ({}:{})", frame.name, frame.filename, frame.line))
    }

    /// Returns all frames of a failed request.
    fn stack(&self, requests: &Requests, oom: FailedRequest) -> Vec<MarkedFrame<'_>> {
        let entry = &self.snapshot.trace(requests.device())[oom.entry];
        let shown = ShownFrames::new(self.snapshot);
        entry.stack.map(|stack| shown.marked(stack).collect()).unwrap_or_default()
    }
}

/// Returns a setting as the table shows it.
fn name(conf: &str) -> &str {
    if conf.is_empty() { "(defaults)" } else { conf }
}

fn table(answers: &[&Answer]) -> Table {
    let mut table = Table::new(&[
        "setting",
        "peak reserved",
        "spread",
        "peak allocated",
        "waste at peak",
        "device allocs",
        "frees",
        "retries",
        "OOMs",
        "first at request",
    ]);
    for answer in answers {
        let outcome = &answer.outcome;
        let PeakSpread { lowest_bytes: least, highest_bytes: most, .. } = answer.spread();
        let spread =
            if least == most { "none".to_owned() } else { format!("{} to {}", Bytes(least), Bytes(most)) };
        table.row(vec![
            name(&answer.conf).to_owned(),
            Bytes(outcome.reserved_peak_bytes).to_string(),
            spread,
            Bytes(outcome.allocated_peak_bytes).to_string(),
            Bytes(outcome.waste_at_peak_bytes).to_string(),
            outcome.num_device_alloc.to_string(),
            outcome.num_device_free.to_string(),
            outcome.num_alloc_retries.to_string(),
            outcome.num_ooms.to_string(),
            outcome.first_oom.map_or("-".to_owned(), |oom| oom.request.to_string()),
        ]);
    }
    table
}

/// Returns the answer that needs the least; of equal ones the first.
fn least(answers: &[Answer]) -> &Answer {
    answers.iter().min_by_key(|answer| answer.rank()).expect("every device has a question")
}

/// Prints which setting needs the least, by how much, and what it costs.
fn conclusion(recorded: &str, answers: &[Answer], out: &mut impl Write) -> io::Result<()> {
    let best = least(answers);
    let before = answers.iter().find(|answer| answer.conf == recorded).unwrap_or(&answers[0]);
    let [best_peak, peak] = [best, before].map(|answer| answer.outcome.reserved_peak_bytes);
    let [best_calls, calls] = [best, before].map(|answer| answer.outcome.num_device_calls());
    if std::ptr::eq(best, before) {
        return writeln!(out, "\nleast: {}, the recorded setting; no other needs less", name(&best.conf));
    }
    #[allow(clippy::cast_precision_loss)]
    let percent = (best_peak as f64 / peak.max(1) as f64 - 1.0) * 100.0;
    write!(
        out,
        "\nleast: {} needs {} reserved instead of {} under {} ({percent:+.1} %), with {} instead of {calls}",
        name(&best.conf),
        Bytes(best_peak),
        Bytes(peak),
        name(&before.conf),
        count(best_calls, "device call"),
    )?;
    match [best, before].map(|answer| answer.outcome.num_ooms) {
        [best, before] if best < before => {
            let failed = count(best, "failed request");
            writeln!(out, " and {failed} instead of {before}")
        }
        _ => writeln!(out),
    }
}
