//! `memreel flamegraph`: what holds the memory at a moment, as a flame graph.

#![forbid(unsafe_code)]

use std::{io::Write, path::PathBuf};

use memreel_snapshot::analysis::{By, Call, DeviceHistory, Histories, Site};

use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opener, each_file, folded::draw},
    options::{At, Devices, device, moment, replaces_no_snapshot},
    text::{Bytes, Page, clean},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Blocks in use are counted by their requested bytes. Stacks run from the
outermost call inward, with the frames that `memreel top` shows. The devices of
a file are drawn side by side.

Examples:
  memreel flamegraph snapshot.pickle -o peak.svg
  memreel flamegraph --at end snapshot.pickle -o end.svg
  memreel flamegraph snapshot.pickle | inferno-flamegraph > peak.svg

Exit status: 0 success; 1 nothing to draw; 2 usage error; 3 a file cannot be
read or written, or is not a snapshot.")]
pub(crate) struct Options {
    /// Snapshot files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Select a device, the heap, or all devices with recorded memory
    #[arg(long, value_name = "N|heap|all", default_value = "all", value_parser = device)]
    device: Devices,

    /// Show this moment: an event number, start, peak, oom or end
    #[arg(long, value_name = "WHEN", default_value = "peak", value_parser = moment::parse)]
    at: At,

    /// Draw to this file [default: print folded stacks, one per line]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    let (mut lines, mut titles) = (Vec::new(), Vec::new());
    let exit = each_file(&options.files, opener, |opened| {
        let devices = opened.devices(options.device)?;
        let histories = Histories::new(&opened.snapshot);
        for device in &devices {
            let history = histories.of(*device);
            let totals = history.totals_at(options.at.moment(&history)?);
            let prefix = if devices.len() > 1 { format!("device {device};") } else { String::new() };
            add(&history, totals.moment, &prefix, &mut lines);
            let when = moment::words(&history, totals.moment);
            titles.push(format!("{}, {} {when}", clean(&opened.name), Bytes(totals.active_bytes)));
        }
        Ok(Exit::Fine)
    })?;
    match &options.output {
        Some(path) => {
            replaces_no_snapshot(path, &options.files)?;
            draw(path, &titles.join("; "), &lines)?;
        }
        None => lines.iter().try_for_each(|line| writeln!(out, "{line}"))?,
    }
    Ok(exit)
}

/// Adds a line for each stack: its calls with semicolons between them, the outermost first, and its bytes.
fn add(
    history: &DeviceHistory<'_>,
    moment: memreel_snapshot::history::Moment,
    prefix: &str,
    lines: &mut Vec<String>,
) {
    let shown = history.shown_frames();
    for group in history.top(moment, By::Stack).iter().filter(|group| group.bytes > 0) {
        let calls = match &group.site {
            Site::Stack(stack) => {
                let calls = shown.identifying_frames(*stack).rev();
                let calls: Vec<String> =
                    calls.map(|frame| clean(&Call(frame).to_string()).replace(';', ",")).collect();
                calls.join(";")
            }
            _ => shown.no_stack().to_owned(),
        };
        lines.push(format!("{prefix}{calls} {}", group.bytes));
    }
}
