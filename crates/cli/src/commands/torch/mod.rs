//! `memreel torch`: the commands of PyTorch's own tool, under its names.

#![forbid(unsafe_code)]

mod compare;
mod memory;
mod pytorch;
mod segments;
mod stats;
mod trace;

use clap::{ArgMatches, Command, error::ErrorKind};

use crate::row::{Ready, Row, question};

/// Returns its commands. They are also known without the word `torch`, which the list of commands does not show.
pub(crate) fn rows() -> Vec<Row> {
    vec![
        question("stats", "Draw how full the segments are", stats::run),
        question("trace", "List every event under short names", trace::run),
        question("segments", "List the segments, or draw them as a flame graph", segments::run),
        question("memory", "Sum each stream's blocks, or draw them as a flame graph", memory::run),
        question("compare", "List the segments that only one of two snapshots has", compare::run),
    ]
}

/// Returns the row of the command.
pub(super) fn row() -> Row {
    Row::group("torch", "Print PyTorch-style reports: stats, trace, segments, memory", line, ready)
}

/// The part of the help after the list of commands.
const AFTER_HELP: &str = "\
The word torch can be left out: memreel stats FILE.

Examples:
  memreel torch stats snapshot.pickle
  memreel torch memory --svg memory.svg snapshot.pickle

Exit status: 0 success; 1 nothing to draw; 2 usage error; 3 a file cannot be
read or written, or is not a snapshot.";

fn line(line: Command) -> Command {
    let commands = rows();
    line.after_help(AFTER_HELP)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(commands.iter().map(Row::line))
}

fn ready(options: &ArgMatches) -> Result<Ready, clap::Error> {
    let asked = options.subcommand().and_then(|(name, options)| {
        let row = rows().into_iter().find(|row| row.name == name)?;
        Some(row.ready(options))
    });
    asked.unwrap_or_else(|| Err(clap::Error::new(ErrorKind::MissingSubcommand)))
}

/// Returns its commands as they are known without the word `torch`.
pub(crate) fn hidden() -> impl Iterator<Item = Command> {
    rows().into_iter().map(|row| row.line().hide(true))
}
