//! `memreel convert`: a snapshot in another tool's format.

#![forbid(unsafe_code)]

mod counted;

use std::{
    fs,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use memreel_snapshot::{
    Snapshot,
    export::{Format, convert},
    pickle,
    rewrite::part as part_of,
};

use serde_json::json;

use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opened, Opener, each_path},
    options::{
        Devices, device,
        output::{self, needs_folder, not_to_a_terminal},
        replaces_no_snapshot,
    },
    text::Page,
};
use counted::Counted;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
json      PyTorch's dictionaries. Each entry has its full stack, so the file is
          60 to 90 times as large as memreel's pickle. The current viewer also
          loads it, but more slowly, and in Chrome only up to 537 MB
pickle    a snapshot, for example from JSON
pprof     for `go tool pprof`: the allocations of the history and the blocks in
          use at the end, as bytes and counts
perfetto  for ui.perfetto.dev: active and reserved bytes over time, a slice for
          each block and scope
folded    for flame graphs: the stacks of the blocks in use at the end, in bytes
csv       a line per event: time, action, address, bytes, stream, scope, the
          call that allocated (`site`, as in `memreel top`), the number of its
          stack (--stacks adds all frames), and for a failed request the
          device's free bytes

Examples:
  memreel convert --to perfetto snapshot.pickle -o trace.json
  memreel convert --to pprof snapshot.pickle -o heap.pb

Exit status: 0 done; 2 usage error; 3 a file cannot be read or written.")]
pub(crate) struct Options {
    /// The output format [default: from the extension of -o (.json, .pickle, .pb, .folded or .csv),
    /// otherwise json]
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Option<To>,

    /// Add all frames of each event's stack to the CSV, which can take gigabytes for a million events
    #[arg(long)]
    stacks: bool,

    /// Write to this file, or to this folder under the input's name, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Convert this device, the heap, or all
    #[arg(long, value_name = "N|heap|all", default_value = "all", value_parser = device)]
    device: Devices,

    /// Write a file of any size; by default, the limit is 1 GB plus 100 times the snapshot's size
    #[arg(long)]
    allow_large: bool,

    /// Print one JSON object per file written, one per line; requires -o, because the data would otherwise
    /// go to standard output
    #[arg(long, requires = "output")]
    json: bool,

    /// Snapshot files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum To {
    Json,
    Pickle,
    Pprof,
    Perfetto,
    Folded,
    Csv,
}

impl To {
    /// Returns the format for a file's ending; without an ending, JSON.
    fn of_path(path: &Path) -> Result<To, Failure> {
        let ending = path.extension().unwrap_or_default().to_string_lossy();
        Ok(match &*ending {
            _ if path.is_dir() => To::Json,
            "json" | "" => To::Json,
            "pickle" | "pkl" => To::Pickle,
            "pb" | "pprof" => To::Pprof,
            "folded" => To::Folded,
            "csv" => To::Csv,
            _ => {
                return Err(Failure::usage(format!(
                    ".{ending} is not the extension of a format; add --to json, pickle, pprof, perfetto, \
                     folded or csv"
                )));
            }
        })
    }

    fn extension(self) -> &'static str {
        match self {
            To::Json => "json",
            To::Pickle => "pickle",
            To::Pprof => "pb",
            To::Perfetto => "perfetto.json",
            To::Folded => "folded",
            To::Csv => "csv",
        }
    }

    fn write(self, snapshot: &Snapshot, has_stacks: bool, sink: &mut impl Write) -> io::Result<()> {
        let format = match self {
            To::Json => Format::Json,
            To::Pickle => return pickle::write(snapshot, sink),
            To::Pprof => Format::Pprof,
            To::Perfetto => Format::Perfetto,
            To::Folded => Format::Folded,
            To::Csv if has_stacks => Format::CsvStacks,
            To::Csv => Format::Csv,
        };
        convert(snapshot, format, sink)
    }
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    let output = options.output.as_deref().filter(|path| *path != Path::new("-"));
    if options.files.len() > 1 && !output.is_some_and(Path::is_dir) {
        return Err(needs_folder());
    }
    let to = match (options.to, output) {
        (Some(to), _) => to,
        (None, None) => To::Json,
        (None, Some(path)) => To::of_path(path)?,
    };
    if options.json && output.is_none() {
        return Err(Failure::usage(
            "standard output is used for the converted snapshot; --json needs -o FILE",
        ));
    }
    each_path(&options.files, |path| {
        let opened = &opener.open(path)?;
        let part = part(opened, options.device)?;
        let snapshot = part.as_ref().unwrap_or(&opened.snapshot);
        // A small file may expand greatly: a stack of megabytes, for each of many events.
        let most = (!options.allow_large).then(|| opened.n_bytes.saturating_mul(100).saturating_add(GB));
        let Some(output) = output else {
            if matches!(to, To::Pickle | To::Pprof) {
                not_to_a_terminal("this format")?;
            } else if options.output.is_none() && io::stdout().is_terminal() {
                let what = "would fill this terminal; use -o FILE, or -o - to print it here";
                return Err(Failure::usage(format!("the {} of a snapshot {what}", to.extension())));
            }
            let mut sink = Counted::new(&mut *out, most);
            let written = to.write(snapshot, options.stacks, &mut sink);
            check(sink.is_over(), to)?;
            written?;
            warn(to, sink.n_bytes(), "standard output");
            return Ok(Exit::Fine);
        };
        let path = if output.is_dir() { output.join(file_name(opened, to)) } else { output.to_path_buf() };
        if to != To::Pickle {
            replaces_no_snapshot(&path, &options.files)?;
        }
        let n_bytes = save(snapshot, to, (options.stacks, most), &path)?;
        let written = path.display().to_string();
        warn(to, n_bytes, &written);
        if options.json {
            let (format, n_events) = (to.extension(), snapshot.n_events());
            let line = json!({
                "file": opened.name, "format": format, "n_events": n_events, "bytes": n_bytes, "written": written,
            });
            writeln!(out, "{line}")?;
        }
        Ok(Exit::Fine)
    })
}

/// Returns the part of the device that was named, if any.
fn part(opened: &Opened, which: Devices) -> Result<Option<Snapshot>, Failure> {
    let device = opened.one_device(which)?;
    Ok(device.map(|device| part_of(&opened.snapshot, device).unwrap_or_default()))
}

fn file_name(opened: &Opened, to: To) -> String {
    let stem = Path::new(&opened.name).file_stem().unwrap_or("snapshot".as_ref()).to_string_lossy();
    format!("{stem}.{}", to.extension())
}

/// Writes a file; returns its size in bytes.
fn save(
    snapshot: &Snapshot,
    to: To,
    (has_stacks, most): (bool, Option<u64>),
    path: &Path,
) -> Result<u64, Failure> {
    if to == To::Pickle {
        pickle::save(snapshot, path)?;
        return Ok(fs::metadata(path).map_or(0, |found| found.len()));
    }
    let (mut n_bytes, mut is_over) = (0, false);
    let written = output::replace(path, |file| {
        let mut sink = Counted::new(file, most);
        let written = to.write(snapshot, has_stacks, &mut sink);
        (n_bytes, is_over) = (sink.n_bytes(), sink.is_over());
        written
    });
    check(is_over, to)?;
    written.map(|()| n_bytes)
}

const GB: u64 = 1_000_000_000;

/// Returns an error if there was more than may be written.
fn check(is_over: bool, to: To) -> Result<(), Failure> {
    if !is_over {
        return Ok(());
    }
    let what = format!(
        "its {} would be larger than 1 GB and 100 times the file's size; use --allow-large to write it \
         anyway, or make the snapshot smaller with `memreel slim`",
        to.extension()
    );
    Err(Failure::Message(Exit::Unreadable, what))
}

/// Chrome refuses a text of more than 536,870,888 characters, and the viewer reads JSON as one text. A file of
/// 459 MB took it 8 s and 1.6 GB of memory, where the pickle took 1 to 2 s and 0.4 GB.
const MOST_JSON_BYTES: u64 = 500_000_000;

/// Warns if JSON is too large for the viewer.
fn warn(to: To, n_bytes: u64, written: &str) {
    if is_too_large(to, n_bytes) {
        let mb = n_bytes / 1_000_000;
        eprintln!(
            "memreel: warning: {written} has {mb} MB of JSON, and in the viewer Chrome cannot load more than \
             537 MB; load the pickle, or cut the history with `memreel slim` first"
        );
    }
}

fn is_too_large(to: To, n_bytes: u64) -> bool {
    to == To::Json && n_bytes > MOST_JSON_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_alone_can_be_too_large() {
        assert!(!is_too_large(To::Json, 500_000_000) && is_too_large(To::Json, 500_000_001));
        assert!(!is_too_large(To::Csv, u64::MAX) && !is_too_large(To::Pickle, u64::MAX));
    }
}
