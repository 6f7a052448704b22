//! Options that several commands share.

#![forbid(unsafe_code)]

use std::{fmt, path::PathBuf};

use memreel_snapshot::DeviceId;

use crate::text::calls::Calls;

/// The options of every question about snapshots.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Input {
    /// Snapshot files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Select a device, the heap, or all devices with recorded memory
    #[arg(long, value_name = "N|heap|all", default_value = "all", allow_negative_numbers = true, value_parser = device)]
    pub(crate) device: Devices,

    /// Print one JSON object per file and device, one per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// How much of a list of stacks is printed.
#[derive(Debug, clap::Args)]
pub(crate) struct Listing {
    /// Show at most COUNT rows
    #[arg(short, value_name = "COUNT", default_value_t = 10)]
    pub(crate) n: usize,

    /// Show at most COUNT calls per stack
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    frames: usize,

    /// Print full file paths
    #[arg(long)]
    paths: bool,
}

impl Listing {
    /// Returns which calls of a stack are printed.
    pub(crate) fn calls(&self) -> Calls {
        Calls { n: self.frames, has_paths: self.paths }
    }
}

/// Which devices of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Devices {
    All,
    /// The heap of the process, whatever its number is.
    Heap,
    One(DeviceId),
}

/// Displays as `--device` reads it.
impl fmt::Display for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Devices::All => f.write_str("all"),
            Devices::Heap => f.write_str("heap"),
            Devices::One(device) => device.fmt(f),
        }
    }
}

/// Reads `0`, `all`, `heap`, `host` (or its number, -1) for pinned host memory, or PyTorch's spelling: `cuda:0`, and `xpu:0`, `npu:0` or another type for devices that are not NVIDIA's.
pub(crate) fn device(text: &str) -> Result<Devices, String> {
    match text {
        "all" => Ok(Devices::All),
        "heap" => Ok(Devices::Heap),
        "host" | "-1" => Ok(Devices::One(DeviceId::HOST)),
        _ => {
            let is_type = |kind: &str| !kind.is_empty() && kind.bytes().all(|c| c.is_ascii_lowercase());
            let number =
                text.split_once(':').filter(|(kind, _)| is_type(kind)).map_or(text, |(_, number)| number);
            let number = number.parse::<u16>();
            number.map(|number| Devices::One(number.into())).map_err(|_| {
                format!("{text:?} is not a device; use for example 0, cuda:0, heap, host or all")
            })
        }
    }
}
