//! `memreel merge`: joins several files into one, in which the number of a device is the rank.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use memreel_snapshot::{
    DeviceId,
    model::SnapshotSource,
    rewrite::{Merged, MergedDevice, Part, SettingDifference},
};
use serde_json::{Value, json};

use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opener, lazy::Source, name},
    options::output::Output,
    text::{Page, ShownPath, clean, count, print_text},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
If every file name contains a rank (rank3, rank_3, rank-3), the rank becomes the
device number, so you can select it in the viewer's device menu. Otherwise
devices keep their numbers; if two files use the same number, devices are
numbered in the order of the files. To leave out devices, use `memreel split
--device` first. Each file is listed with its devices. Settings are taken from
the first file, and differences from the other files' settings are listed. What
a file lost or left out is recorded for its devices, so warnings still apply to
the right ones.

Examples:
  memreel merge snapshot_rank*.pickle -o all.pickle

Exit status: 0 done; 2 usage error; 3 a file cannot be read or written.")]
pub(crate) struct Options {
    #[command(flatten)]
    output: Output,

    /// Number devices in the order of the files, ignoring file names
    #[arg(long)]
    in_order: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Snapshot files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    let ranks: Vec<Option<usize>> = match options.in_order {
        true => (0..options.files.len()).map(Some).collect(),
        false => options.files.iter().map(|file| rank(file)).collect(),
    };
    let of_file = |file: &Path, failure: Failure| failure.of_file(&name(file));
    let open = |file: &PathBuf| Source::open(file, opener).map_err(|failure| of_file(file, failure));
    let sources = options.files.iter().map(open).collect::<Result<Vec<Source>, _>>()?;
    let mut parts = Vec::new();
    for ((file, source), rank) in options.files.iter().zip(&sources).zip(ranks) {
        let snapshot = source.lazy().map_err(|failure| of_file(file, failure))?;
        parts.push(Part::new(snapshot).rank(rank));
    }
    let whole = Merged::new(parts)?;
    let written = options.output.save(&whole, "merged.pickle", out)?;
    if options.output.is_stdout() {
        return Ok(Exit::Fine);
    }
    let names: Vec<&str> = sources.iter().map(|source| &*source.name).collect();
    if options.json {
        writeln!(out, "{}", answer(&whole, &names, written.as_deref()))?;
    } else {
        let shown: Vec<_> = names.iter().map(|name| clean(name)).collect();
        let shown: Vec<&str> = shown.iter().map(|name| &**name).collect();
        print(&whole, &shown, written.as_deref(), out)?;
    }
    Ok(Exit::Fine)
}

/// The devices of a merged file, in ascending order.
fn numbers(whole: &Merged<impl SnapshotSource>) -> Vec<DeviceId> {
    let mut numbers: Vec<DeviceId> = whole.devices().iter().map(|merged| merged.device).collect();
    numbers.sort_unstable();
    numbers
}

fn answer(whole: &Merged<impl SnapshotSource>, names: &[&str], written: Option<&Path>) -> Value {
    let origin = |merged: &MergedDevice| {
        json!({
            "device": merged.device,
            "file": names[merged.part],
            "number_in_file": merged.number_in_part,
            "n_events": merged.n_entries,
        })
    };
    let differing = |setting: SettingDifference| json!({"key": &*setting.key, "values": setting.values});
    json!({
        "files": names.len(),
        "devices": numbers(whole),
        "n_events": whole.n_events(),
        "written": written.map(|path| path.display().to_string()),
        "origins": whole.devices().iter().map(origin).collect::<Vec<_>>(),
        "differing_settings": whole.differing_settings().into_iter().map(differing).collect::<Vec<_>>(),
    })
}

fn print(
    whole: &Merged<impl SnapshotSource>,
    names: &[&str],
    written: Option<&Path>,
    out: &mut Page,
) -> io::Result<()> {
    let devices: Vec<String> = numbers(whole).iter().map(ToString::to_string).collect();
    let (files, events) = (count(names.len(), "file"), count(whole.n_events(), "event"));
    let word = if devices.len() == 1 { "device" } else { "devices" };
    let written = match written {
        Some(path) => format!(", written to {}", ShownPath(&path)),
        None => "; nothing is written without -o".to_owned(),
    };
    print_text(format!("{files}, {events}, {word} {}{written}", devices.join(", ")), out)?;
    for (part, name) in names.iter().enumerate() {
        let mut of_part = whole.devices().iter().filter(|merged| merged.part == part).peekable();
        if of_part.peek().is_none() {
            print_text(format!("  {name}: no device: it has no history and no memory"), out)?;
        }
        for MergedDevice { device, number_in_part, n_entries, .. } in of_part {
            let from = match device == number_in_part {
                true => String::new(),
                false => format!(" ({number_in_part} in the file)"),
            };
            let events = match n_entries {
                0 => "no history was recorded".to_owned(),
                n => count(*n, "event"),
            };
            print_text(format!("  {name}: device {device}{from}, {events}"), out)?;
        }
    }
    whole.differing_settings().iter().try_for_each(|setting| print_difference(setting, names, out))
}

/// Prints the value that the merged file has, and the first that differs from it.
fn print_difference(setting: &SettingDifference, names: &[&str], out: &mut Page) -> io::Result<()> {
    let SettingDifference { key, values, .. } = setting;
    let Some(first) = values.iter().position(Option::is_some) else { return Ok(()) };
    let text = |value: &Option<memreel_snapshot::model::Value>| match value {
        Some(value) => serde_json::to_string(value).unwrap_or_default(),
        None => "not there".to_owned(),
    };
    let mut others = (0..values.len()).filter(|part| values[*part] != values[first]);
    let Some(other) = others.next() else { return Ok(()) };
    let more = match others.count() {
        0 => String::new(),
        n => format!(" (and other values in {} more)", count(n, "file")),
    };
    let text = format!(
        "note: the setting {key} is {} in {} and {} in {}{more}; the merged file keeps the first",
        text(&values[first]),
        names[first],
        text(&values[other]),
        names[other],
    );
    print_text(text, out)
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
