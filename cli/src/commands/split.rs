//! `memreel split`: writes a file for each device.

#![forbid(unsafe_code)]

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use memreel::{Snapshot, analysis::devices, pickle, rewrite::part, snapshot::Segment};
use serde_json::json;

use crate::{
    each::each_file,
    exit::Exit,
    failure::Failure,
    fit::print_text,
    input::Opened,
    json::print_line,
    options::{Devices, device},
    text::count,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each device with events or segments gets a file NAME.deviceN.pickle, beside the
input or in the folder of -o, and keeps its number in it. Pinned host memory
goes with the first device. NAME is snapshot for standard input.

Example:
  memreel split all.pickle -o devices/

Exit status: 0 done, 2 wrong usage, 3 a file that cannot be read or written.")]
pub(crate) struct Options {
    /// Write the files into this folder, which must exist
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,

    /// Write the file of this device, or of all
    #[arg(long, value_name = "N|all", default_value = "all", value_parser = device)]
    device: Devices,

    /// Print one JSON object a line, for each file that is written
    #[arg(long)]
    json: bool,

    /// Snapshot files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// The most files that are written without a device.
const MOST_FILES: usize = 4096;

/// Returns a sentence about the segments of devices that no file can have, if there are any.
fn beyond_16_bits(snapshot: &Snapshot) -> Option<String> {
    let is_beyond = |segment: &&Segment| segment.device.0 > i64::from(u16::MAX);
    let first = snapshot.segments.iter().find(is_beyond)?.device;
    let n = count(snapshot.segments.iter().filter(is_beyond).count(), "segment");
    Some(format!(
        "{n} of devices beyond {}, for example of device {first}, left out; `memreel fix` drops such segments",
        u16::MAX
    ))
}

pub(crate) fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    each_file(&options.files, |opened| split_file(opened, options, out))
}

fn split_file(opened: &Opened, options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    let name = &opened.name;
    let input = if opened.is_stdin { Path::new("snapshot") } else { Path::new(name) };
    let stem = input.file_stem().unwrap_or("snapshot".as_ref()).to_string_lossy();
    let folder = options.output.clone().or_else(|| Some(input.parent()?.to_path_buf())).unwrap_or_default();
    let wanted = opened.devices(options.device)?;
    let snapshot = &opened.snapshot;
    let found = devices(snapshot);
    if found.len() > MOST_FILES && options.device == Devices::All {
        let (n, first) = (found.len(), found[0]);
        return Err(Failure::usage(format!(
            "not divided into {n} files; write one of them with --device {first}"
        )));
    }
    let beyond = beyond_16_bits(snapshot);
    match &beyond {
        Some(what) if found.is_empty() => return Err(Failure::usage(format!("nothing is written: {what}"))),
        None if found.is_empty() => {
            return Err(Failure::usage("nothing is written: no device has events or segments"));
        }
        Some(what) => eprintln!("memreel: warning: {name}: {what}"),
        None => {}
    }
    for (device, part) in wanted.into_iter().filter_map(|device| Some((device, part(snapshot, device)?))) {
        let path = folder.join(format!("{stem}.device{device}.pickle"));
        if options.output.is_none() && path.exists() {
            let what = format!("{} already exists; use -o FOLDER to write anyway", path.display());
            return Err(Failure::usage(what));
        }
        pickle::save(&part, &path)?;
        let (n_events, path) = (part.n_events(), path.display().to_string());
        if options.json {
            print_line(name, device, &json!({"n_events": n_events, "written": path}), out)?;
        } else {
            let text = format!("{name}: device {device}, {}, written to {path}", count(n_events, "event"));
            print_text(text, out)?;
        }
    }
    Ok(Exit::Fine)
}
