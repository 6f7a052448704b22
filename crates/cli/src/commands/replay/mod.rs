//! `memreel replay`: how much memory a recorded run needs under other allocator settings.

#![forbid(unsafe_code)]

mod from;
mod results;
mod text;

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::ArgAction;
use memreel::whatif::{Bounds, Change, Replay, ReplayAnswer, Requests, Sweep, grid, replayed};
use memreel_snapshot::{DeviceId, Error, Snapshot, analysis::DeviceHistory, pickle};
use serde_json::{Value, json};

use results::distinct;
use text::{Report, failed_stack};

use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opened, Opener, each_file},
    options::{Devices, changes::Changes, device},
    text::{Page, Progress, bytes},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
`memreel replay` runs the requests of the recorded history through an allocator
that behaves like PyTorch's, under each setting. PyTorch's best-fit search
breaks ties by address, so each setting is replayed twice: once with new
segments at rising addresses, and once at falling addresses.

Each replay starts with the segments and blocks that the recorded run had at the
first event, as if the setting had been changed at that moment. Without --limit,
if the recorded run ran out of memory or had to release its cache to continue,
the limit is the most that it was able to reserve.

As a baseline, memreel replays the recorded setting and compares the replay with
the recorded run, event by event; the simulated device refuses the same requests
as the real one did. The largest deviation determines the confidence of every
answer: `certain` if there is none, `high` up to 1 % of the recorded peak,
`fair` up to 5 %, and `low` above that.

--sweep prints the best setting first. The settings are sorted by their number
of failed requests. Among settings with equally many failures, those whose worst
case is within 5 % of the lowest worst case come first; they are sorted by their
number of device allocs and frees, then by peak, then by their number of
options. A setting whose range of peaks overlaps that of the recorded setting is
not considered better and is listed after it. Settings with the same result
share a row.

--from switches settings during the run: the first --conf applies until that
moment, and the second from then on. If only one --conf is given, the recorded
setting applies until that moment. If a scope occurs several times, refer to it
by number, as for `memreel leaks --between`.

--without, --scale and --free-after-use simulate a change to the program:
requests made inside a call are left out or resized, or their blocks are freed
when the call returns and requested again in the backward pass, as with a
checkpoint around the call.

Columns:
  peak reserved   the most bytes reserved at once: the best estimate (with the
                  recorded addresses if they fit, otherwise with falling ones)
  worst case      the same, with the addresses that give the highest peak
  peak allocated  the most bytes allocated in blocks at once, including rounding
  unused at peak  reserved bytes not in any block when reserved memory peaks
  device allocs   segments, or ranges of pages, taken from the device
  device frees    segments, or ranges of pages, returned to the device
  retries         requests for which the cache was released and the device tried
                  again
  OOMs            requests that failed; each replay continues without them
  first OOM       the index of the first failed request, counting from 0

Sizes: KiB, MiB and GiB (or just K, M and G) are powers of 1024, as in PyTorch's
settings (max_split_size_mb:64 is 64 MiB); kB, MB and GB are powers of 1000.

Examples:
  memreel replay --conf expandable_segments:True snapshot.pickle
  memreel replay --sweep --limit 24GiB snapshot.pickle
  memreel replay --free-after-use 'layer (model.py:70)' snapshot.pickle
  memreel replay --from step#3 --conf max_split_size_mb:20 snapshot.pickle

Exit status: 0 success; 1 a history is missing or inconsistent; 2 usage error or
unknown setting; 3 a file cannot be read or written.")]
pub(crate) struct Options {
    /// Try this value of PYTORCH_ALLOC_CONF; may be repeated [default: the recorded setting]
    #[arg(long, value_name = "SETTING", action = ArgAction::Append)]
    conf: Vec<String>,

    /// Reserve at most this much on each device: 24GiB, 512MiB, 1.5GiB or a number of bytes [default:
    /// the most that the recorded run was able to reserve, if known]
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse)]
    limit: Option<u64>,

    /// Switch to the second --conf at this moment: an event number, a scope such as step#3, or a time after
    /// the first event such as 1.5s
    #[arg(long, value_name = "MOMENT", requires = "conf", conflicts_with_all = ["sweep", "output"])]
    from: Option<String>,

    /// Show at most COUNT rows of a sweep
    #[arg(short, value_name = "COUNT", default_value_t = 8, requires = "sweep")]
    n: usize,

    /// Show at most COUNT calls of a failed request's stack
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    frames: usize,

    /// Replay this device, the heap, or all devices with a history
    #[arg(long, value_name = "N|heap|all", default_value = "all", value_parser = device)]
    device: Devices,

    /// Also try a grid of settings, and print the best first
    #[arg(long)]
    sweep: bool,

    #[command(flatten)]
    changes: Changes,

    /// Write the replayed history to this file as a snapshot; requires exactly one setting and one file
    #[arg(short, long, value_name = "FILE", conflicts_with = "sweep")]
    output: Option<PathBuf>,

    /// Print one JSON object per setting and device, one per line
    #[arg(long)]
    json: bool,

    /// Snapshots with a history; `-` is standard input
    #[arg(required = true, value_name = "SNAPSHOT")]
    files: Vec<PathBuf>,
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    if options.output.is_some() && (options.conf.len() > 1 || options.files.len() > 1) {
        return Err(Failure::usage(
            "--output takes the history of one setting; give one --conf and one file",
        ));
    }
    if options.from.is_some() && options.conf.len() > 2 {
        return Err(Failure::usage("--from switches once; give one --conf or two"));
    }
    // A wrong setting is reported before a large file is read.
    for conf in &options.conf {
        conf.parse::<memreel::allocator::Settings>().map_err(Failure::usage)?;
    }
    each_file(&options.files, opener, |opened| {
        let device = opened.one_device(options.device)?;
        answered(options, opened, device)?.print(options, out)?;
        Ok(Exit::Fine)
    })
}

/// A snapshot with the answers for each of its devices.
struct Answered<'a> {
    name: &'a str,
    snapshot: &'a Snapshot,
    devices: Vec<(Requests, Vec<ReplayAnswer>)>,
}

fn answered<'a>(
    options: &Options,
    opened: &'a Opened,
    device: Option<DeviceId>,
) -> Result<Answered<'a>, Failure> {
    let snapshot = &opened.snapshot;
    let requests = changed(devices(device, snapshot)?, snapshot, &options.changes.read()?)?;
    let confs: Vec<Vec<String>> = requests.iter().map(|requests| confs(options, requests)).collect();
    let n_runs: usize =
        requests.iter().zip(&confs).map(|(requests, all)| all.len() * 2 * requests.n_steps()).sum();
    let progress = Progress::new(n_runs as u64);
    let mut devices = Vec::with_capacity(requests.len());
    for (requests, confs) in requests.into_iter().zip(&confs) {
        let (add, bounds) = (|done| progress.add(done), bounds(options, &requests));
        let answers = match &options.from {
            Some(text) => {
                let entry = from::entry(text, &DeviceHistory::new(snapshot, requests.device()))?;
                let [before, after] = switched(options, &requests);
                let replay = Replay::new(&requests).conf(before).switch(entry, after).bounds(bounds);
                vec![replay.on_progress(&add).run()?]
            }
            None => {
                let sweep = Sweep::new(std::slice::from_ref(&requests)).confs(confs).bounds(bounds);
                sweep.on_progress(&add).run()?
            }
        };
        devices.push((requests, answers));
    }
    drop(progress);
    let answered = Answered { name: &opened.name, snapshot, devices };
    if let Some(path) = &options.output {
        answered.write(path, &confs[0][0], options.limit)?;
    }
    Ok(answered)
}

/// Returns how much memory the runs have: the given limit, or what the recorded run had.
fn bounds(options: &Options, requests: &Requests) -> Bounds {
    options.limit.map_or_else(|| requests.bounds(), Bounds::Limit)
}

/// Returns the settings before and after the switch.
fn switched(options: &Options, requests: &Requests) -> [String; 2] {
    match &options.conf[..] {
        [before, after, ..] => [before.clone(), after.clone()],
        after => [requests.recorded().usable_conf().to_owned(), after.concat()],
    }
}

/// Returns the requests of the devices of `--device`.
fn devices(device: Option<DeviceId>, snapshot: &Snapshot) -> Result<Vec<Requests>, Error> {
    let traces = snapshot.device_traces.iter().zip(0..=u16::MAX);
    let mut devices: Vec<DeviceId> = match device {
        Some(device) => vec![device],
        None => traces.filter(|(trace, _)| !trace.is_empty()).map(|(_, device)| device.into()).collect(),
    };
    if devices.is_empty() {
        // Its error explains what is missing.
        devices.push(DeviceId(0));
    }
    Requests::of_devices(snapshot, &devices)
}

/// Returns the requests of the changed program; a device without requests below a call is unchanged, unless no device
/// has some.
fn changed(requests: Vec<Requests>, snapshot: &Snapshot, changes: &[Change]) -> Result<Vec<Requests>, Error> {
    changes.iter().try_fold(requests, |requests, change| {
        let changed: Vec<_> = requests.iter().map(|requests| requests.changed(snapshot, change)).collect();
        if changed.iter().all(Result::is_err) {
            return changed.into_iter().collect();
        }
        Ok(changed.into_iter().zip(requests).map(|(changed, before)| changed.unwrap_or(before)).collect())
    })
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
        let missing: Vec<String> = grid(bounds(options, requests).limit_bytes())
            .into_iter()
            .filter(|conf| !confs.contains(conf) && requests.recorded().reader().takes(conf))
            .collect();
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

    fn print(&self, options: &Options, out: &mut Page) -> io::Result<()> {
        for (requests, answers) in &self.devices {
            if options.json {
                answers.iter().try_for_each(|answer| {
                    writeln!(out, "{}", self.line(requests, answer, answers, options))
                })?;
            } else {
                let report = Report {
                    file: self.name,
                    snapshot: self.snapshot,
                    requests,
                    answers,
                    n_rows: options.sweep.then_some(options.n),
                    limit_bytes: options.limit,
                    changes: &options.changes.words(),
                    n_calls: options.frames,
                };
                report.print(out)?;
            }
        }
        Ok(())
    }

    fn line(
        &self,
        requests: &Requests,
        answer: &ReplayAnswer,
        all: &[ReplayAnswer],
        options: &Options,
    ) -> Value {
        let outcome = &answer.outcome;
        let (recorded, baseline) = (requests.recorded(), answer.baseline);
        let rows = distinct(all, recorded.usable_conf());
        let place = rows.iter().position(|row| row.has(&answer.conf));
        let first_oom = outcome.first_oom.map(|oom| {
            let stack = failed_stack(self.snapshot, requests, oom);
            json!({"request": oom.request, "size_bytes": oom.size_bytes, "stack": stack})
        });
        json!({
            "file": self.name,
            "conf": answer.conf,
            "changes": options.changes.words(),
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
            "is_least": std::ptr::eq(answer, rows[0].first()),
            "place": place.map(|place| place + 1),
            "switch": answer.switch,
            "limit_bytes": bounds(options, requests).most_bytes(),
            "could_hold": requests.could_hold(),
            "num_empty_cache": requests.num_empty_cache(),
            "baseline": {
                "recorded_peak_bytes": baseline.recorded_peak_bytes,
                "peak_bytes": baseline.peak_bytes,
                "recorded_end_bytes": baseline.recorded_end_bytes,
                "end_bytes": baseline.end_bytes,
                "deviation_bytes": baseline.deviation_bytes,
                "deviation_percent": baseline.deviation_percent(),
                "deviation_entry": baseline.deviation_entry,
                "num_other_ooms": baseline.num_other_ooms,
                "num_compared": baseline.num_compared,
            },
            "confidence": answer.confidence,
            "warnings": requests.warnings(),
        })
    }
}
