//! The command line as typed.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use memreel::snapshot::validate::Severity;

/// A flight recorder for GPU and host memory.
#[derive(Debug, Parser)]
#[command(name = "memreel", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what is wrong with snapshot files.
    Validate(Validate),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each finding is a line `FILE: E21 PLACE: TEXT`: a severity, the number of the broken rule (see
schema/snapshot.md), where, and what. E: some reader throws or is badly wrong. W: a misleading
picture. P: only differs from what PyTorch writes.

Example:
  memreel validate --severity w snapshot.pickle

Exit status: 0 no E finding, 1 an E finding, 2 wrong usage, 3 a file that cannot be read or is no
snapshot; of several files the highest.")]
pub(crate) struct Validate {
    /// One JSON object a line: every finding, and a summary for each file
    #[arg(long)]
    pub(crate) json: bool,

    /// The least severity to print
    #[arg(long, value_enum, default_value = "p", ignore_case = true)]
    pub(crate) severity: Least,

    /// Snapshot files
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
