//! The command line as typed.

use std::path::PathBuf;

use clap::{ArgAction, Parser, Subcommand, ValueEnum};
use memreel::validate::Severity;

use crate::{bytes, commands};

/// Answers questions about memory snapshots of PyTorch and memreel.
#[derive(Debug, Parser)]
#[command(
    name = "memreel",
    version,
    after_help = "\
A snapshot is what torch.cuda.memory._dump_snapshot(\"snapshot.pickle\") or memreel::dump_snapshot writes.

Example:
  memreel top snapshot.pickle         who holds the memory at the peak
  memreel oom snapshot.pickle         why it ran out
  memreel timeline snapshot.pickle    how it went
  memreel help top                    a page for each command"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the allocator's state after an event.
    At(commands::at::Options),
    /// Name the sites that allocate and free the same size again and again.
    Churn(commands::churn::Options),
    /// List the segments that came and went between two snapshots.
    Compare(commands::compare::Options),
    /// Print what a shell needs to complete commands.
    Completions(commands::completions::Options),
    /// Write a snapshot in another tool's format.
    Convert(commands::convert::Options),
    /// Say which stacks hold more or less than in another snapshot.
    Diff(commands::diff::Options),
    /// Repair snapshots on which the web viewer throws.
    Fix(commands::fix::Options),
    /// Say what is reserved and serves nobody, and what pins it.
    Fragmentation(commands::fragmentation::Options),
    /// Hold a snapshot against limits, for continuous integration.
    Gate(commands::gate::Options),
    /// Name the sites that hold memory at the end, those that only grow first.
    Leaks(commands::leaks::Options),
    /// Print manual pages.
    Man(commands::man::Options),
    /// Sum up each stream's blocks, or draw them as a flame graph.
    Memory(commands::memory::Options),
    /// Put several snapshots into one: ranks become devices.
    Merge(commands::merge::Options),
    /// Say why a request failed, and what stood in its way.
    Oom(commands::oom::Options),
    /// Say how much memory a recorded run needs under other allocator settings.
    Replay(Replay),
    /// List the segments, or draw them as a flame graph.
    Segments(commands::segments::Options),
    /// Make a snapshot smaller: a window, fewer frames, large blocks alone, no names.
    Slim(commands::slim::Options),
    /// Write a snapshot for each device.
    Split(commands::split::Options),
    /// Draw how the segments are filled, as PyTorch's tool does.
    Stats(commands::stats::Options),
    /// Plot allocated, active and reserved bytes.
    Timeline(commands::timeline::Options),
    /// Say who holds the memory, at the peak or any other moment.
    Top(commands::top::Options),
    /// List every event under short names.
    Trace(commands::trace::Options),
    /// Say what is wrong with snapshot files.
    Validate(Validate),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The requests of the recorded history run through an allocator that does what PyTorch's does, under
each setting. Best fit breaks ties by address, so every setting runs with rising and with falling
addresses; the table shows the lowest and the highest peak where they differ.

Sizes: KiB, MiB, GiB and a bare K, M, G count in 1024s, as PyTorch's settings do (max_split_size_mb:64 is
64 MiB); kB, MB, GB count in 1000s.

Example:
  memreel replay --conf expandable_segments:True --conf max_split_size_mb:128 snapshot.pickle
  memreel replay --sweep --limit 24GiB snapshot.pickle

Exit status: 0 answered, 1 a history that is missing or contradicts itself, 2 wrong usage or an
unknown setting, 3 a file that cannot be read or written.")]
pub(crate) struct Replay {
    /// A setting, as PYTORCH_CUDA_ALLOC_CONF has it; may be given again. Default: the recorded one
    #[arg(long, value_name = "SETTING", action = ArgAction::Append)]
    pub(crate) conf: Vec<String>,

    /// The most that may be reserved on each device: 24GiB, 512MiB, 1.5GiB or bytes. Default: no limit
    #[arg(long, value_name = "BYTES", value_parser = bytes::parse)]
    pub(crate) limit: Option<u64>,

    /// The device to replay, or all that have a history
    #[arg(long, value_name = "N|all", default_value = "all", value_parser = device)]
    pub(crate) device: Devices,

    /// Try a grid of settings too, and name the one that needs the least memory
    #[arg(long)]
    pub(crate) sweep: bool,

    /// Write the replayed history there as a snapshot; for one setting and one file only
    #[arg(short, long, value_name = "FILE", conflicts_with = "sweep")]
    pub(crate) output: Option<PathBuf>,

    /// One JSON object a line, for each setting and device
    #[arg(long)]
    pub(crate) json: bool,

    /// Snapshots with history; `-` is standard input
    #[arg(required = true, value_name = "SNAPSHOT")]
    pub(crate) files: Vec<PathBuf>,
}

/// What every question about snapshots takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Input {
    /// Snapshot files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// The device to look at, or all that have memory
    #[arg(long, value_name = "N|all", default_value = "all", value_parser = device)]
    pub(crate) device: Devices,

    /// One JSON object a line, for each file and device
    #[arg(long)]
    pub(crate) json: bool,
}

/// How much of a list of stacks is printed.
#[derive(Debug, clap::Args)]
pub(crate) struct Listing {
    /// How many to print
    #[arg(short, value_name = "COUNT", default_value_t = 10)]
    pub(crate) n: usize,

    /// How many calls of a stack to print
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    pub(crate) frames: usize,
}

/// Which devices of a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Devices {
    All,
    One(u16),
}

pub(crate) fn device(text: &str) -> Result<Devices, String> {
    match text {
        "all" => Ok(Devices::All),
        _ => {
            // As PyTorch writes it.
            let number = text.strip_prefix("cuda:").unwrap_or(text).parse();
            number.map(Devices::One).map_err(|_| "say a device's number, or all".to_owned())
        }
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each finding is a line `FILE: E21 PLACE: TEXT`: a severity, the number of the broken rule (see
schema/snapshot.md), where, and what. E: some reader throws or is badly wrong. W: a misleading
picture. P: only differs from what PyTorch writes.

Example:
  memreel validate --severity w snapshot.pickle

JSON as the viewer loads it is read too; what is said of a pickle's bytes (rules 3 and 5) it cannot break.
A viewer takes a file as a whole or not at all, so there is no --device.

Exit status: 0 no E finding, 1 an E finding, 2 wrong usage, 3 a file that cannot be read or is no
snapshot; of several files the highest.")]
pub(crate) struct Validate {
    /// One JSON object a line: every finding, and a summary for each file
    #[arg(long)]
    pub(crate) json: bool,

    /// The least severity to print
    #[arg(long, value_enum, default_value = "p", ignore_case = true)]
    pub(crate) severity: Least,

    /// Snapshot files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Least {
    /// Errors alone
    E,
    /// Errors and warnings
    W,
    /// Everything
    P,
}

impl Least {
    pub(crate) fn severity(self) -> Severity {
        match self {
            Least::E => Severity::Error,
            Least::W => Severity::Warning,
            Least::P => Severity::Pytorch,
        }
    }
}
