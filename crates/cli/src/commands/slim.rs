//! `memreel slim`: writes a smaller snapshot.

#![forbid(unsafe_code)]

use std::{cmp::Reverse, io::Write, ops::Range, path::PathBuf};

use memreel_snapshot::{
    DeviceId,
    model::SnapshotSource,
    pickle::LazySnapshot,
    rewrite::{Slim, Window},
};
use serde_json::json;

use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opener, heap, lazy::each_lazy},
    options::{
        Devices, device,
        instant::{self, Instant},
        output::Output,
    },
    text::{Page, ShownPath, bytes, clean, count, print_text},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
If you keep only a window of the history, the state remains correct: the end of
the window becomes the end of the file, and blocks allocated before the window
are kept without their alloc events, as if the ring had dropped these events.
Without -o, `memreel slim` only prints how much would be left. All devices are
kept; to extract one, use `memreel split --device`.

`--scope step#7` keeps number 7 of the scopes named step, counted from 0 in the
order in which they start; `memreel leaks --between` uses the same numbers. A
scope whose own name is step#7 takes precedence.

Examples:
  memreel slim --time 10s..12s --min-size 1MiB snapshot.pickle -o small.pickle
  memreel slim --scope step#7 --anonymise snapshot.pickle -o to-share.pickle

Exit status: 0 done; 2 usage error, or a window that does not exist; 3 a file
cannot be read or written.")]
pub(crate) struct Options {
    #[command(flatten)]
    output: Output,

    /// Keep events A up to, but not including, B, counted from 0, on the device with the most events; A or B
    /// may be left out
    #[arg(long, value_name = "A..B", value_parser = events, group = "window")]
    events: Option<Range<usize>>,

    /// Count the events of this device, or of the heap
    #[arg(long, value_name = "N|heap|all", requires = "events", value_parser = device)]
    device: Option<Devices>,

    /// Keep the events in this range of times after the first event, such as 1.5s..3s or 200ms.., or of
    /// timestamps in microseconds, as in `time_us`
    #[arg(long, value_name = "A..B", value_parser = times, group = "window")]
    time: Option<Range<Instant>>,

    /// Keep the events of this scope; if several scopes have the name, from the first to the last. NAME#N
    /// is the same as --nth N
    #[arg(long, value_name = "NAME", group = "window")]
    scope: Option<String>,

    /// Keep only scope N of that name, counted from 0 on each device
    #[arg(long, value_name = "N", requires = "scope")]
    nth: Option<usize>,

    /// Remove blocks smaller than this: 1MiB, 512KiB or a number of bytes
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse)]
    min_size: Option<u64>,

    /// Keep at most the N innermost frames of each stack; frames that viewers hide do not count
    #[arg(long, value_name = "N")]
    depth: Option<usize>,

    /// Remove frames whose file path contains this text; may be repeated
    #[arg(long, value_name = "TEXT")]
    drop_path: Vec<String>,

    /// Remove this prefix from paths; may be repeated
    #[arg(long, value_name = "PATH")]
    strip_prefix: Vec<String>,

    /// Replace the program's names of functions, files and scopes with numbers; those of PyTorch and CUDA stay
    #[arg(long)]
    anonymise: bool,

    /// Print one JSON object per file, one per line
    #[arg(long)]
    json: bool,

    /// Snapshot files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

fn ends(text: &str) -> Result<(&str, &str), String> {
    text.split_once("..")
        .ok_or_else(|| format!("{text:?} is not a range; use for example 100..200, 100.. or ..200"))
}

fn events(text: &str) -> Result<Range<usize>, String> {
    let (from, to) = ends(text)?;
    let number = |text: &str, or: usize| {
        if text.is_empty() {
            Ok(or)
        } else {
            text.parse().map_err(|_| format!("{text:?} is not an event number"))
        }
    };
    let range = number(from, 0)?..number(to, usize::MAX)?;
    if range.start > range.end { Err(format!("{text:?} ends before it starts")) } else { Ok(range) }
}

fn times(text: &str) -> Result<Range<Instant>, String> {
    let (from, to) = ends(text)?;
    let or =
        |text: &str, or: i64| if text.is_empty() { Ok(Instant::Since1970(or)) } else { instant::parse(text) };
    Ok(or(from, i64::MIN)?..or(to, i64::MAX)?)
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    options.output.fits(options.files.len())?;
    each_lazy(&options.files, opener, |name, lazy| slim_file(name, lazy, options, out))
}

fn slim_file(
    name: &str,
    before: &LazySnapshot<'_>,
    options: &Options,
    out: &mut Page,
) -> Result<Exit, Failure> {
    let window = options.window(before)?;
    if let Some(Window::Time(times)) = &window
        && times.start > times.end
    {
        return Err(Failure::usage("the window of --time ends before it starts"));
    }
    // A scope without events is a valid window.
    let why_empty = match &window {
        Some(Window::Time(_)) => Some(format!("no events are in the window of --time; {}", span(before))),
        Some(Window::Events { device, .. }) => {
            Some(format!("no events are in the window of --events; {}", numbers(before, *device)))
        }
        _ => None,
    };
    let after = options.slim(window).over(before)?;
    if let Some(why) = why_empty.filter(|_| after.n_events() == 0) {
        return Err(Failure::usage(why));
    }
    let written = options.output.save(&after, name, out)?;
    if options.output.is_stdout() {
        return Ok(Exit::Fine);
    }
    let documents: [&dyn SnapshotSource; 2] = [before, &after];
    let events = documents.map(SnapshotSource::n_events);
    let frames = documents.map(|document| document.head().stacks.all_frames().len());
    if options.json {
        let written = written.map(|path| path.display().to_string());
        writeln!(
            out,
            "{}",
            json!({"file": name, "n_events": events, "n_frames": frames, "written": written})
        )?;
        return Ok(Exit::Fine);
    }
    let written = match written {
        Some(path) => format!(", written to {}", ShownPath(&path)),
        None => "; nothing is written without -o".to_owned(),
    };
    let (n_events, n_frames) = (count(events[0], "event"), count(frames[0], "frame"));
    let name = clean(name);
    let text = format!("{name}: {} of {n_events}, {} of {n_frames}{written}", events[1], frames[1]);
    print_text(text, out)?;
    Ok(Exit::Fine)
}

/// Describes which events a device has, or without one the device with the most.
fn numbers(document: &impl SnapshotSource, device: Option<DeviceId>) -> String {
    let longest = DeviceId::first(document.n_traces())
        .max_by_key(|device| (document.n_entries(*device), Reverse(*device)));
    let device = device.or(longest).unwrap_or_default();
    match document.n_entries(device) {
        0 => format!("device {device} has no history"),
        n => format!("device {device} has {}, numbered from 0 to {}", count(n, "event"), n - 1),
    }
}

/// Describes how long the history is, for the message about an empty window.
fn span(document: &impl SnapshotSource) -> String {
    let mut times: Option<(i64, i64)> = None;
    for device in DeviceId::first(document.n_traces()) {
        document.for_each_entry(device, &mut |entry| {
            // An entry without a time has the time 0.
            if entry.time_us != 0 {
                let (first, last) = times.unwrap_or((entry.time_us, entry.time_us));
                times = Some((first.min(entry.time_us), last.max(entry.time_us)));
            }
        });
    }
    match times {
        Some((first, last)) => {
            let ms = last.saturating_sub(first) / 1000;
            format!("the history has {} in {ms} ms", count(document.n_events(), "event"))
        }
        None if document.n_events() > 0 => "no events have a time".to_owned(),
        None => "no history was recorded".to_owned(),
    }
}

/// Returns the time of a device's first event that has one.
fn first_time(document: &impl SnapshotSource, device: DeviceId) -> Option<i64> {
    let first_in = |range| {
        let mut first = None;
        document.for_each_entry_in(device, range, &mut |entry| {
            first = first.or(Some(entry.time_us).filter(|time_us| *time_us != 0));
        });
        first
    };
    // The first event nearly always has a time; a pass over all takes seconds.
    first_in(0..1).or_else(|| first_in(0..usize::MAX))
}

impl Options {
    fn slim(&self, window: Option<Window>) -> Slim {
        let slim = Slim::new().window(window).min_bytes(self.min_size.unwrap_or(0)).depth(self.depth);
        let slim = self.drop_path.iter().fold(slim, |slim, part| slim.drop_path(part));
        let slim = self.strip_prefix.iter().fold(slim, |slim, prefix| slim.strip_prefix(prefix));
        slim.anonymise(self.anonymise)
    }

    fn window(&self, document: &impl SnapshotSource) -> Result<Option<Window>, Failure> {
        if let Some(range) = &self.events {
            return Ok(Some(Window::Events { device: self.one_device(document)?, range: range.clone() }));
        }
        if let Some(name) = &self.scope {
            return Ok(Some(Window::Scope { name: name.clone(), nth: self.nth }));
        }
        let Some(times) = &self.time else { return Ok(None) };
        let first =
            DeviceId::first(document.n_traces()).filter_map(|device| first_time(document, device)).min();
        let absolute = |instant: Instant| instant.time_us(first.unwrap_or(0));
        Ok(Some(Window::Time(absolute(times.start)..absolute(times.end))))
    }

    /// Returns the device whose events a window counts; without one, it is the device with the most.
    fn one_device(&self, document: &impl SnapshotSource) -> Result<Option<DeviceId>, Failure> {
        let has_events = |device: &DeviceId| document.n_entries(*device) > 0;
        match self.device {
            None | Some(Devices::All) => Ok(None),
            Some(Devices::One(device)) => Ok(Some(device)),
            Some(Devices::Heap) => {
                let known: Vec<DeviceId> = DeviceId::first(document.n_traces()).filter(has_events).collect();
                heap(document.head(), &known).map(Some)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        assert_eq!(events("3..7"), Ok(3..7));
        assert_eq!(events("..7"), Ok(0..7));
        assert_eq!(events("3.."), Ok(3..usize::MAX));
        assert!(["7..3", "7", "a..b", "-1..2"].iter().all(|text| events(text).is_err()));
        assert_eq!(times("1.5s..200ms"), Ok(Instant::After(1_500_000)..Instant::After(200_000)));
        assert_eq!(
            times("..1700000000000000"),
            Ok(Instant::Since1970(i64::MIN)..Instant::Since1970(1_700_000_000_000_000))
        );
        assert!(["1..2 parsecs", "x..", "-1s..", "5s"].iter().all(|text| times(text).is_err()));
    }
}
