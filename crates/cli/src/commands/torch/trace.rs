//! `memreel trace`: every event under short names.

#![forbid(unsafe_code)]

use std::{
    fmt,
    io::{self, Write},
};

use memreel_snapshot::{
    Action, BlockState, DeviceId,
    analysis::{DeviceHistory, Home, Naming, TraceLine, TraceNames},
};
use serde_json::json;

use super::pytorch::{TorchSize, repr_entry};
use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opened, Opener, each_file},
    options::{Devices, Input},
    text::{Page, clean, print_line},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Blocks and segments have short names, which are reused once the blocks and
segments are freed; TOTAL MEM is what is in use at the end. PyTorch's
`_memory_viz.py trace` never reuses a name, searches freed segments, and
computes TOTAL MEM wrongly; --pytorch prints the same text as that tool, byte
for byte.

Examples:
  memreel trace snapshot.pickle | less
  memreel trace --pytorch --device 0 snapshot.pickle

Exit status: 0 success; 2 usage error; 3 a file cannot be read or is not a
snapshot.")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,

    /// Print the output of PyTorch's tool, including its errors
    #[arg(long, conflicts_with = "json")]
    pytorch: bool,
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    let input = &options.input;
    each_file(&input.files, opener, |opened| {
        let mut devices = opened.devices(input.device)?;
        // The tool prints no host memory.
        devices.retain(|device| !options.pytorch || *device != DeviceId::HOST);
        devices.retain(|device| !opened.snapshot.trace(*device).is_empty());
        if devices.is_empty() && !options.pytorch && !input.json {
            let what = if input.device == Devices::All { "no device has" } else { "this device has no" };
            writeln!(out, "{}: {what} history: nothing was recorded", opened.name)?;
        }
        let naming = if options.pytorch { Naming::PyTorch } else { Naming::Recycled };
        let names = TraceNames::new(&opened.snapshot, naming);
        for device in devices {
            if input.json {
                objects(opened, device, &names, out)?;
            } else {
                text(options, opened, device, &names, out)?;
            }
        }
        // The tool's text has no newline after its last line, and Python's print adds it.
        if options.pytorch {
            writeln!(out)?;
        }
        Ok(Exit::Fine)
    })
}

fn text(
    options: &Options,
    opened: &Opened,
    device: DeviceId,
    names: &TraceNames<'_>,
    out: &mut Page,
) -> Result<(), Failure> {
    let entries = opened.snapshot.trace(device);
    let entries_word = if entries.len() == 1 && !options.pytorch { "entry" } else { "entries" };
    writeln!(out, "Device {device} ----------------\n{} {entries_word}", entries.len())?;
    for line in names.lines(device) {
        print(opened, &line, options.pytorch, out)?;
    }
    if options.pytorch {
        write!(out, "TOTAL MEM: {}", TorchSize::from_sum(pytorch_total(entries)))?;
    } else {
        writeln!(out, "TOTAL MEM: {}", TorchSize::new(active_bytes(opened, device)))?;
    }
    Ok(())
}

/// Returns the bytes in use at the end, from the segments or, without segments, from the history.
fn active_bytes(opened: &Opened, device: DeviceId) -> u64 {
    let mut segments = opened.segments(device).peekable();
    if segments.peek().is_none() {
        let history = DeviceHistory::new(&opened.snapshot, device);
        return history.totals_at(history.end()).active_bytes;
    }
    let active = segments.flat_map(|segment| &segment.blocks);
    let active = active.filter(|block| block.state.is_some_and(BlockState::is_active));
    active.map(|block| block.requested_size).fold(0, u64::saturating_add)
}

/// Returns the tool's sum: the index of the last entry, plus or minus the size of that entry.
fn pytorch_total(entries: &[memreel_snapshot::model::TraceEntry]) -> i128 {
    let last = i128::try_from(entries.len()).unwrap_or(0) - 1;
    match entries.last().map(|entry| (entry.action, i128::from(entry.size))) {
        Some((Some(Action::Alloc), size)) => last + size,
        Some((Some(Action::FreeCompleted), size)) => last - size,
        _ => last.max(0),
    }
}

/// Prints a name, or the address if there is none.
struct Called<'a>(&'a TraceLine<'a>);

impl fmt::Display for Called<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.name {
            Some(name) => name.fmt(f),
            None => self.0.entry.address.0.fmt(f),
        }
    }
}

fn print(opened: &Opened, line: &TraceLine<'_>, is_pytorch: bool, out: &mut Page) -> io::Result<()> {
    let entry = line.entry;
    let size = TorchSize::new(entry.size);
    let name = Called(line);
    match entry.action {
        Some(Action::Alloc) => match line.home {
            Home::Traced { segment, offset } => writeln!(out, "{name} = {segment}[{offset}:{size}]"),
            Home::Final { segment, offset } => writeln!(out, "{name} = seg_{segment}[{offset}:{size}]"),
            _ => writeln!(out, "{name} = MEM[{}:{size}]", entry.address.0),
        },
        Some(Action::FreeRequested) => writeln!(out, "del {name} # {size}"),
        Some(Action::FreeCompleted) => writeln!(out, "# free completed for {name} {size}"),
        Some(Action::SegmentAlloc) => writeln!(out, "{name} = cudaMalloc({}, {size})", entry.address.0),
        Some(Action::SegmentFree) => writeln!(out, "cudaFree({name}) # {size}"),
        Some(Action::Oom) => {
            let free = TorchSize::new(entry.device_free_bytes());
            writeln!(out, "raise OutOfMemoryError # {size} requested, {free} free in CUDA")
        }
        Some(Action::SegmentMap) if !is_pytorch => writeln!(out, "cuMemMap({}, {size})", entry.address.0),
        Some(Action::SegmentUnmap) if !is_pytorch => writeln!(out, "cuMemUnmap({}, {size})", entry.address.0),
        Some(Action::Snapshot) if !is_pytorch => writeln!(out, "# snapshot, {size} active"),
        Some(Action::Annotate) if !is_pytorch => {
            writeln!(out, "# annotate {name}: {}", clean(opened.snapshot.user_metadata(entry)))
        }
        _ => writeln!(out, "{}", repr_entry(&opened.snapshot, entry)),
    }
}

fn objects(opened: &Opened, device: DeviceId, names: &TraceNames<'_>, out: &mut Page) -> Result<(), Failure> {
    for (index, line) in names.lines(device).enumerate() {
        let entry = line.entry;
        let home = match line.home {
            Home::Traced { segment, offset } => json!({"segment": segment.to_string(), "offset": offset}),
            Home::Final { segment, offset } => json!({"segment": format!("seg_{segment}"), "offset": offset}),
            _ => serde_json::Value::Null,
        };
        let is_oom = entry.action == Some(Action::Oom);
        let mut answer = json!({
            "entry": index,
            "action": entry.action,
            "name": line.name.map(|name| name.to_string()),
            "address": (!is_oom).then_some(entry.address),
            "bytes": entry.size,
            "home": home,
        });
        if entry.action == Some(Action::Annotate) {
            answer["annotation"] = opened.snapshot.user_metadata(entry).into();
        }
        if let Some(metadata) = opened.snapshot.metadata(entry) {
            answer["metadata"] = metadata.into();
        }
        if is_oom {
            answer["device_free_bytes"] = entry.device_free_bytes().into();
        }
        print_line(&opened.name, device, &answer, out)?;
    }
    Ok(())
}
