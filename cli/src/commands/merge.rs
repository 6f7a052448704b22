//! `memreel merge`: joins several files into one, in which the number of a device is the rank.

#![forbid(unsafe_code)]

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use memreel::{
    rewrite::{Merged, Part},
    snapshot::SnapshotSource,
};
use serde_json::json;

use crate::{exit::Exit, failure::Failure, input::name, lazy::Source, output::Output, text::count};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
If every file name has the number of a rank (rank3, rank_3, rank-3), it becomes the number of the device, and
the viewer's device menu picks the rank. Otherwise devices keep their numbers; if two files have the same,
devices are numbered in the order of the files. To leave devices out, use `memreel split --device` first.

Example:
  memreel merge snapshot_rank*.pickle -o all.pickle

Exit status: 0 done, 2 wrong usage, 3 a file that cannot be read or written.")]
pub(crate) struct Options {
    #[command(flatten)]
    output: Output,

    /// Number devices in the order of the files, and ignore their names
    #[arg(long)]
    in_order: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Snapshot files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(crate) fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    let ranks: Vec<Option<usize>> = match options.in_order {
        true => (0..options.files.len()).map(Some).collect(),
        false => options.files.iter().map(|file| rank(file)).collect(),
    };
    let of_file = |file: &Path, failure: Failure| failure.of_file(&name(file));
    let open = |file: &PathBuf| Source::open(file).map_err(|failure| of_file(file, failure));
    let sources = options.files.iter().map(open).collect::<Result<Vec<Source>, _>>()?;
    let mut parts = Vec::new();
    for ((file, source), rank) in options.files.iter().zip(&sources).zip(ranks) {
        let snapshot = source.lazy().map_err(|failure| of_file(file, failure))?;
        parts.push(Part::new(snapshot).rank(rank));
    }
    let n_files = parts.len();
    let whole = Merged::new(parts)?;
    let written = options.output.save(&whole, "merged.pickle", out)?;
    if options.output.is_stdout() {
        return Ok(Exit::Fine);
    }
    let devices: Vec<usize> =
        (0..whole.n_traces()).filter(|device| whole.n_entries((*device).into()) > 0).collect();
    if options.json {
        let written = written.map(|path| path.display().to_string());
        let line =
            json!({"files": n_files, "devices": devices, "n_events": whole.n_events(), "written": written});
        writeln!(out, "{line}")?;
        return Ok(Exit::Fine);
    }
    let devices: Vec<String> = devices.iter().map(ToString::to_string).collect();
    let (files, events) = (count(n_files, "file"), count(whole.n_events(), "event"));
    let word = if devices.len() == 1 { "device" } else { "devices" };
    write!(out, "{files}, {events}, {word} {}", devices.join(", "))?;
    match written {
        Some(path) => writeln!(out, ", written to {}", path.display())?,
        None => writeln!(out, "; nothing is written without -o")?,
    }
    Ok(Exit::Fine)
}

/// Returns the number after the last `rank` of a name.
fn rank(file: &Path) -> Option<usize> {
    let name = file.file_name()?.to_str()?.to_ascii_lowercase();
    let after = &name[name.rfind("rank")? + 4..];
    let digits = after.trim_start_matches(['_', '-', '=', '.']);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_read_from_names() {
        let cases = [
            ("snapshot_rank12.pickle", Some(12)),
            ("/runs/Rank_3/dump-rank-0.pkl", Some(0)),
            ("frank.rank=7", Some(7)),
            ("ranked.pickle", None),
            ("rank99999999999999999999", None),
            ("snapshot.pickle", None),
        ];
        for (name, number) in cases {
            assert_eq!(rank(Path::new(name)), number, "{name}");
        }
    }
}
