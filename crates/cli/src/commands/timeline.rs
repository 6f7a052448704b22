//! `memreel timeline`: allocated, active and reserved bytes over a history.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use memreel_answers::{Question, TimelineQuestion};
use memreel_snapshot::analysis::{Axis, DeviceHistory};

use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opener, each_device},
    options::{Input, moment, output, replaces_no_snapshot},
    text::{Bytes, Page, ShownPath, count, labels, plot, print_text, print_warnings, print_wrapped},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Symbols on the terminal: █ allocated, ▓ pending (a free that waits for a
stream), ░ reserved; the first two together are in use (active in --csv and
--json). Each column shows the highest figures in its part of the history. --csv
prints every event. Allocated and pending are requested bytes.

Examples:
  memreel timeline snapshot.pickle
  memreel timeline --time --svg timeline.svg snapshot.pickle
  memreel timeline --csv snapshot.pickle > timeline.csv

Exit status: 0 success; 2 usage error; 3 a file cannot be read or written, or is
not a snapshot.")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,

    /// Plot over time instead of events
    #[arg(long)]
    time: bool,

    /// Print a line per event: file, device, event, time_us, action, allocated_bytes, active_bytes and
    /// reserved_bytes
    #[arg(long, conflicts_with_all = ["json", "svg"])]
    csv: bool,

    /// Draw to this file; for several devices or files, to numbered files
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    svg: Option<PathBuf>,

    /// Draw this many columns [default: the terminal's width, or 100]; --json prints one point per column
    #[arg(long, value_name = "COUNT")]
    width: Option<usize>,

    /// Draw this many rows
    #[arg(long, value_name = "COUNT", default_value_t = 16)]
    height: usize,
}

/// The columns of a plot, and points of `--json`, where neither an option nor the terminal gives their number.
const COLUMNS: usize = 100;

/// The most files that one command draws.
const MOST_DRAWN: usize = 256;

fn too_many(file: &str) -> Failure {
    let what = format!(
        "{file}: further devices are not drawn: one command draws at most {MOST_DRAWN}; select one with \
         --device"
    );
    Failure::Message(Exit::Broken, what)
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    let axis = if options.time { Axis::Time } else { Axis::Events };
    let mut n_drawn = 0;
    if options.csv {
        writeln!(out, "file,device,event,time_us,action,allocated_bytes,active_bytes,reserved_bytes")?;
    }
    // Headings would become lines of the CSV, and with --svg nothing follows them.
    let input = Input {
        files: options.input.files.clone(),
        json: options.input.json || options.csv || options.svg.is_some(),
        ..options.input
    };
    each_device(&input, opener, out, |asked, out| {
        let (opened, history) = (asked.opened, asked.history());
        if options.csv {
            csv(&opened.name, history, out)?;
        } else if let Some(path) = &options.svg {
            if n_drawn == MOST_DRAWN {
                return Err(too_many(&opened.name));
            }
            let path = numbered(path, n_drawn);
            n_drawn += 1;
            let title = format!("{}, {}", opened.name, labels::device(history.device()));
            replaces_no_snapshot(&path, &options.input.files)?;
            draw(&path, history, axis, &title)?;
            // With several pictures, the reader needs to know which is which.
            if asked.is_one_of_several {
                writeln!(out, "{title}: written to {}", ShownPath(&path))?;
            }
        } else if options.input.json {
            let question = TimelineQuestion { axis, n_points: options.width.unwrap_or(COLUMNS) };
            asked.print_answer(&question.ask(asked.subject())?, out)?;
        } else {
            print(history, axis, options, out)?;
        }
        Ok(Exit::Fine)
    })
}

fn print(history: &DeviceHistory<'_>, axis: Axis, options: &Options, out: &mut Page) -> Result<(), Failure> {
    let peak = history.peak();
    let most = history.highest(|totals| totals.reserved_bytes);
    let text = format!(
        "peak: {} in use {}; {} reserved at most",
        Bytes(peak.active_bytes),
        moment::words(history, peak.moment),
        Bytes(most.reserved_bytes),
    );
    print_text(text, out)?;
    print_warnings(history, out)?;
    let n_columns = options.width.unwrap_or_else(|| out.width().map_or(COLUMNS, |width| width - plot::SCALE));
    let points = history.timeline(axis, n_columns.clamp(1, 10_000));
    plot::characters(&points, options.height.clamp(2, 1_000), out)?;
    let entries = history.entries();
    let (n_events, span) = (count(entries.len(), "event"), moment::span_words(history));
    let text = format!("{:13}{n_events}{span}   █ allocated ▓ pending ░ reserved", "");
    Ok(print_wrapped(&text, plot::SCALE, out)?)
}

fn csv(file: &str, history: &DeviceHistory<'_>, out: &mut Page) -> io::Result<()> {
    let file = if file.contains([',', '"', '\n']) {
        format!("\"{}\"", file.replace('"', "\"\""))
    } else {
        file.into()
    };
    let prefix = format!("{file},{},", history.device());
    let mut line = Vec::new();
    // `fmt` would take longer for a million lines of eight numbers than everything else; JSON's number formatting does
    // not.
    for totals in history.totals() {
        line.clear();
        line.extend_from_slice(prefix.as_bytes());
        match totals.moment.entry() {
            None => line.extend_from_slice(b",,start"),
            Some(at) => {
                let entry = &history.entries()[at];
                serde_json::to_writer(&mut line, &at)?;
                line.push(b',');
                serde_json::to_writer(&mut line, &entry.time_us)?;
                line.push(b',');
                line.extend_from_slice(entry.action.map_or("", |action| action.name()).as_bytes());
            }
        }
        for bytes in [totals.allocated_bytes, totals.active_bytes, totals.reserved_bytes] {
            line.push(b',');
            serde_json::to_writer(&mut line, &bytes)?;
        }
        line.push(b'\n');
        out.write_all(&line)?;
    }
    Ok(())
}

/// Returns `plot.svg`, then `plot.1.svg` and so on.
fn numbered(path: &Path, n: usize) -> PathBuf {
    if n == 0 {
        return path.to_owned();
    }
    let extension = path.extension().map_or_else(|| "svg".into(), |extension| extension.to_string_lossy());
    path.with_extension(format!("{n}.{extension}"))
}

fn draw(path: &Path, history: &DeviceHistory<'_>, axis: Axis, title: &str) -> Result<(), Failure> {
    let points = history.timeline(axis, plot::SVG_POINTS);
    output::replace(path, |file| plot::svg(&points, title, file))
}
