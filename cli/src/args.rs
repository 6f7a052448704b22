//! The command line.

#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};

use crate::commands;

/// Answer questions about GPU memory snapshots of PyTorch and memreel.
#[derive(Debug, Parser)]
#[command(
    name = "memreel",
    version,
    override_usage = "memreel FILE...\n       memreel COMMAND [OPTIONS] FILE...",
    after_help = "\
A snapshot is a file that torch.cuda.memory._dump_snapshot(\"snapshot.pickle\") or
memreel::save wrote. GPUs of AMD are the devices of torch.cuda too. Commands
read tapes of memreel (MEMREEL_TAPE=run.tape) as they read snapshots.

Example:
  memreel snapshot.pickle         what it is, and what to ask next
  memreel oom snapshot.pickle     why a request ran out of memory
  memreel view snapshot.pickle    pictures of it, in a browser
  memreel top snapshot.pickle     what holds the memory at the peak
  memreel help top                a page for each command"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the allocator's state after an event.
    At(commands::at::Options),
    /// List the sites that allocate and free one size again and again.
    Churn(commands::churn::Options),
    /// List the segments that only one of two snapshots has.
    Compare(commands::compare::Options),
    /// Print a shell's completion script.
    Completions(commands::completions::Options),
    /// Write a snapshot in another tool's format.
    Convert(commands::convert::Options),
    /// List the stacks that hold more or less than in another snapshot.
    Diff(commands::diff::Options),
    /// Repair snapshots that the web viewer cannot open.
    Fix(commands::fix::Options),
    /// Show reserved memory that no block uses, and what pins it.
    Fragmentation(commands::fragmentation::Options),
    /// Check a snapshot against limits, for continuous integration.
    Gate(commands::gate::Options),
    /// List what is held at the end, the sites that only grow first.
    Leaks(commands::leaks::Options),
    /// Print manual pages.
    Man(commands::man::Options),
    /// Serve the Model Context Protocol, for assistants and editors.
    #[cfg(feature = "mcp")]
    Mcp(commands::mcp::Options),
    /// Sum up each stream's blocks, or draw them as a flame graph.
    Memory(commands::memory::Options),
    /// Join several snapshots into one; ranks become devices.
    Merge(commands::merge::Options),
    /// Explain why a request ran out of memory.
    Oom(commands::oom::Options),
    /// Show who has a device's memory, and what is unexplained.
    Owners(commands::owners::Options),
    /// Compare the ranks of a run, and name those that differ.
    Ranks(commands::ranks::Options),
    /// Run any program, and record the memory that it asks for.
    Record(commands::record::Options),
    /// Make a snapshot of a tape, also after a crash.
    Recover(commands::recover::Options),
    /// Estimate the memory that other allocator settings would need.
    Replay(commands::replay::Options),
    /// List the segments, or draw them as a flame graph.
    Segments(commands::segments::Options),
    /// Make a snapshot smaller: a window, fewer frames, no names.
    Slim(commands::slim::Options),
    /// Write one snapshot for each device.
    Split(commands::split::Options),
    /// Draw how the segments are filled, as PyTorch's tool does.
    Stats(commands::stats::Options),
    /// Plot the memory in use and reserved over the history.
    Timeline(commands::timeline::Options),
    /// Describe a snapshot; `memreel FILE` is short for it.
    Summary(commands::summary::Options),
    /// Show what holds the memory, at the peak or at another moment.
    Top(commands::top::Options),
    /// List every event under short names.
    Trace(commands::trace::Options),
    /// Report every rule that a snapshot file breaks.
    Validate(commands::validate::Options),
    /// Look at snapshots in a browser, without a network.
    View(commands::view::Options),
}
