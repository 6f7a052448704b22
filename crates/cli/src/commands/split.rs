//! `memreel split`: writes a file for each device.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::devices,
    pickle,
    rewrite::{part, parts},
};
use serde_json::json;

use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opened, Opener, each_file},
    options::{Devices, device},
    text::{Page, clean, count, print_line, print_text},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
For each device with events or segments, a file NAME.deviceN.pickle is written
to the -o folder; the device keeps its number. Pinned host memory is written
with the first device. For standard input, NAME is `snapshot`. Without -o,
nothing is written; the output shows which files would be.

Examples:
  memreel split all.pickle -o devices/

Exit status: 0 done; 2 usage error; 3 a file cannot be read or written, or has
no devices.")]
pub(crate) struct Options {
    /// Write the files to this folder, which must exist
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,

    /// Write the file of this device, of the heap, or of all
    #[arg(long, value_name = "N|heap|all", default_value = "all", value_parser = device)]
    device: Devices,

    /// Print one JSON object per file that is written, one per line
    #[arg(long)]
    json: bool,

    /// Snapshot files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// The most files that are written without a device.
const MOST_FILES: usize = 4096;

/// The most lists of traces that all files may have together: a file has one for each device up to its own.
const MOST_LISTS: u64 = 1 << 24;

/// Returns a sentence about records of devices that cannot be in any file, if there are any.
fn of_no_device(snapshot: &Snapshot) -> Option<String> {
    let most = i64::from(u16::MAX);
    let is_outside = |device: &i64| !(0..=most).contains(device);
    let of_segments = snapshot.segments.iter().map(|segment| segment.device.0).filter(is_outside);
    let traces = snapshot.device_traces.iter().zip(0..);
    let of_traces = traces.filter(|(trace, device)| !trace.is_empty() && is_outside(device));
    let (n_segments, n_traces) = (of_segments.clone().count(), of_traces.clone().count());
    let first = of_segments.chain(of_traces.map(|(_, device)| device)).next()?;
    let (segments, traces) = (count(n_segments, "segment"), count(n_traces, "trace"));
    Some(format!(
        "{segments} and {traces} of devices outside 0..={most}, for example of device {first}, left out; \
         `memreel fix` drops such segments"
    ))
}

/// Returns why all files together would be too large, if they would.
fn too_many(found: &[DeviceId]) -> Option<String> {
    let n_lists: u64 = found.iter().map(|device| device.0.unsigned_abs() + 1).sum();
    let (n, first) = (found.len(), found.first()?);
    if n > MOST_FILES {
        Some(format!(
            "not split into {n} files, more than {MOST_FILES}; write one of them with --device {first}"
        ))
    } else if n_lists > MOST_LISTS {
        Some(format!(
            "not split: the device numbers are so large that {n} files would have {n_lists} empty traces, \
             more than {MOST_LISTS}; write one file with --device {first}"
        ))
    } else {
        None
    }
}

fn nothing(why: &str) -> Failure {
    Failure::Message(Exit::Unreadable, format!("nothing was written: {why}"))
}

/// Returns the requested parts, each created when it is written.
fn parts_of(
    snapshot: &Snapshot,
    device: Option<DeviceId>,
) -> Box<dyn Iterator<Item = (DeviceId, Snapshot)> + '_> {
    match device {
        None => Box::new(parts(snapshot)),
        Some(device) => Box::new(part(snapshot, device).map(|part| (device, part)).into_iter()),
    }
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    each_file(&options.files, opener, |opened| split_file(opened, options, out))
}

fn split_file(opened: &Opened, options: &Options, out: &mut Page) -> Result<Exit, Failure> {
    let name = &opened.name;
    let input = if opened.is_stdin { Path::new("snapshot") } else { Path::new(name) };
    let stem = input.file_stem().unwrap_or("snapshot".as_ref()).to_string_lossy();
    // An error if the file does not have the device.
    let device = opened.one_device(options.device)?;
    let snapshot = &opened.snapshot;
    // Pinned host memory goes with the first of them.
    let found: Vec<DeviceId> =
        devices(snapshot).into_iter().filter(|device| *device != DeviceId::HOST).collect();
    if let Some(what) = too_many(&found).filter(|_| device.is_none()) {
        return Err(Failure::usage(what));
    }
    let outside = of_no_device(snapshot);
    match &outside {
        Some(what) if found.is_empty() => return Err(nothing(what)),
        None if found.is_empty() => {
            return Err(nothing("no device has events or segments"));
        }
        Some(what) => eprintln!("memreel: warning: {}: {what}", clean(name)),
        None => {}
    }
    for (device, part) in parts_of(snapshot, device) {
        let file = format!("{stem}.device{device}.pickle");
        let path = options.output.as_ref().map(|folder| folder.join(&file));
        if let Some(path) = &path {
            pickle::save(&part, path)?;
        }
        let (n_events, path) = (part.n_events(), path.map(|path| path.display().to_string()));
        if options.json {
            print_line(name, device, &json!({"n_events": n_events, "written": path}), out)?;
        } else {
            let written = path.map_or_else(
                || format!("not written; -o FOLDER writes {file}"),
                |path| format!("written to {path}"),
            );
            let (name, events) = (clean(name), count(n_events, "event"));
            let text = format!("{name}: device {device}, {events}, {}", clean(&written));
            print_text(text, out)?;
        }
    }
    Ok(Exit::Fine)
}
