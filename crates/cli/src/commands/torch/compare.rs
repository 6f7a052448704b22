//! `memreel compare`: the segments that only one of two snapshots has.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use memreel_snapshot::{
    Snapshot,
    analysis::{Comparison, compare},
    model::Segment,
};
use serde_json::{Value, json};

use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opened, Opener, folded, name},
    options::{Devices, device},
    text::{Bytes, Page, Table, clean, count, labels::pool, print_text},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Two segments are the same if they have the same device, address and size.
PyTorch's `_memory_viz.py compare` has never worked from the command line;
--pytorch prints the output that it produces when called from Python, with the
segments in the order of the files. For changes inside segments, use `memreel
diff`.

Examples:
  memreel compare before.pickle after.pickle

Exit status: 0 success; 2 usage error; 3 a file cannot be read or is not a
snapshot.")]
pub(crate) struct Options {
    /// Print addresses, then folded stacks, as PyTorch's tool does from Python
    #[arg(long)]
    pytorch: bool,

    /// Select a device, the heap, or all devices with recorded memory
    #[arg(long, value_name = "N|heap|all", default_value = "all", value_parser = device, conflicts_with = "pytorch")]
    device: Devices,

    /// Print one JSON object
    #[arg(long, conflicts_with = "pytorch")]
    json: bool,

    /// The earlier snapshot; `-` is standard input
    before: PathBuf,

    /// The later snapshot
    after: PathBuf,
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    let opened = of_device(opener.open_both(&options.before, &options.after)?, options.device)?;
    let comparison = compare(&opened[0], &opened[1]);
    let sides =
        [("before", &opened[0], &comparison.only_before), ("after", &opened[1], &comparison.only_after)];
    if options.pytorch {
        for (side, snapshot, segments) in sides {
            let addresses: Vec<u64> =
                segments.iter().map(|index| snapshot.segments[*index].address.0).collect();
            writeln!(out, "only_{side} = {addresses:?}")?;
        }
        comparison.folded(&opened[0], &opened[1], |stack, bytes| folded::line(out, stack, bytes))?;
    } else if options.json {
        writeln!(out, "{}", object(&comparison, &opened[0], &opened[1]))?;
    } else {
        head(
            &comparison,
            [&opened[0], &opened[1]],
            [&options.before, &options.after].map(|path| clean(&name(path)).into_owned()),
            out,
        )?;
        for (side, snapshot, segments) in sides {
            print(side, snapshot, segments, out)?;
        }
    }
    Ok(Exit::Fine)
}

/// Removes the segments of all devices but the one that was named.
fn of_device(both: [Opened; 2], which: Devices) -> Result<[Arc<Snapshot>; 2], Failure> {
    let [before, after] = both.each_ref().map(|opened| opened.one_device(which));
    if let Some(device) = before.or(after)? {
        return Ok(both.map(|opened| {
            let mut snapshot = Arc::unwrap_or_clone(opened.snapshot);
            snapshot.segments.retain(|segment| segment.device == device);
            Arc::new(snapshot)
        }));
    }
    Ok(both.map(|opened| opened.snapshot))
}

fn object(comparison: &Comparison, before: &Snapshot, after: &Snapshot) -> Value {
    let all = |snapshot: &Snapshot, segments: &[usize]| -> Vec<Value> {
        let segments = segments.iter().map(|index| &snapshot.segments[*index]);
        segments
            .map(|segment| {
                json!({
                    "device": segment.device, "address": segment.address, "bytes": segment.total_size,
                    "active_bytes": segment.active_size, "stream": segment.stream,
                })
            })
            .collect()
    };
    json!({
        "only_before": all(before, &comparison.only_before),
        "only_after": all(after, &comparison.only_after),
    })
}

/// Prints how many segments each file has. They are those of the end of its history.
fn head(
    comparison: &Comparison,
    opened: [&Snapshot; 2],
    names: [String; 2],
    out: &mut Page,
) -> io::Result<()> {
    let bytes = |segments: &[Segment]| {
        Bytes(segments.iter().fold(0, |sum, segment| u64::saturating_add(sum, segment.total_size)))
    };
    for (name, snapshot) in names.into_iter().zip(opened) {
        let (n, bytes) = (snapshot.segments.len(), bytes(&snapshot.segments));
        print_text(format!("{name}: {} at the end, {bytes}", count(n, "segment")), out)?;
    }
    let n_same = opened[0].segments.len().saturating_sub(comparison.only_before.len());
    writeln!(out, "in both: {}", count(n_same, "segment"))
}

fn print(side: &str, snapshot: &Snapshot, segments: &[usize], out: &mut Page) -> io::Result<()> {
    let segments: Vec<&Segment> = segments.iter().map(|index| &snapshot.segments[*index]).collect();
    let bytes = segments.iter().fold(0, |sum, segment| u64::saturating_add(sum, segment.total_size));
    writeln!(out, "only {side}: {}, {}", count(segments.len(), "segment"), Bytes(bytes))?;
    if segments.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["  address", "size", "in blocks", "pool", "device"]);
    for segment in segments {
        table.row(vec![
            format!("  {:#x}", segment.address),
            Bytes(segment.total_size).to_string(),
            Bytes(segment.active_size).to_string(),
            pool(segment),
            segment.device.to_string(),
        ]);
    }
    table.print(out)
}
