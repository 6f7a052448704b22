//! The command line.

#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};

use crate::commands;

/// Answer questions about GPU memory snapshots of PyTorch and memreel.
#[derive(Debug, Parser)]
#[command(
    name = "memreel",
    version,
    after_help = "\
A snapshot is a file written by torch.cuda.memory._dump_snapshot(\"snapshot.pickle\") or memreel::dump_snapshot.

Example:
  memreel top snapshot.pickle         what holds the memory at the peak
  memreel oom snapshot.pickle         why a request ran out of memory
  memreel timeline snapshot.pickle    memory in use over the history
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
    /// List the sites that allocate and free the same size again and again.
    Churn(commands::churn::Options),
    /// List the segments that only one of two snapshots has.
    Compare(commands::compare::Options),
    /// Print a shell's completion script.
    Completions(commands::completions::Options),
    /// Write a snapshot in another tool's format.
    Convert(commands::convert::Options),
    /// Compare two snapshots: the stacks that hold more or less memory.
    Diff(commands::diff::Options),
    /// Repair snapshots that the web viewer cannot open.
    Fix(commands::fix::Options),
    /// Show the reserved memory that no block uses, and the blocks that pin it.
    Fragmentation(commands::fragmentation::Options),
    /// Check a snapshot against limits, for continuous integration.
    Gate(commands::gate::Options),
    /// List the sites that hold memory at the end; those that only grow come first.
    Leaks(commands::leaks::Options),
    /// Print manual pages.
    Man(commands::man::Options),
    /// Sum up each stream's blocks, or draw them as a flame graph.
    Memory(commands::memory::Options),
    /// Join several snapshots into one, in which ranks become devices.
    Merge(commands::merge::Options),
    /// Explain why a request ran out of memory.
    Oom(commands::oom::Options),
    /// Estimate how much memory a recorded run needs under other allocator settings.
    Replay(commands::replay::Options),
    /// List the segments, or draw them as a flame graph.
    Segments(commands::segments::Options),
    /// Make a snapshot smaller: a window, fewer frames, large blocks only, no names.
    Slim(commands::slim::Options),
    /// Write one snapshot for each device.
    Split(commands::split::Options),
    /// Draw how the segments are filled, as PyTorch's tool does.
    Stats(commands::stats::Options),
    /// Plot allocated, active and reserved bytes.
    Timeline(commands::timeline::Options),
    /// Show what holds the memory, at the peak or at another moment.
    Top(commands::top::Options),
    /// List every event under short names.
    Trace(commands::trace::Options),
    /// Report every rule that a snapshot file breaks.
    Validate(commands::validate::Options),
}
