//! The command line.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

/// Ask many GPU memory snapshots at once, in SQL.
#[derive(Debug, Parser)]
#[command(
    name = "memreel-fleet",
    version,
    after_help = "\
A URL is a file, a folder, a pattern in quotes, or an address of an object store
(s3://, gs://, az://), of PyTorch's or memreel's pickles, of memreel's tapes, or
of a folder that export wrote.

Example:
  memreel-fleet query \"select rank, peak_bytes from runs order by 2 desc\" run/
  memreel-fleet export --parquet out run/
  memreel-fleet tables"
)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print the answer to a query.
    Query(QueryOptions),
    /// Write the tables as a folder of Parquet files.
    Export(ExportOptions),
    /// List the tables and their columns.
    Tables,
}

#[derive(Debug, ClapArgs)]
pub(super) struct QueryOptions {
    /// The query; the tables are events, allocations, segments, blocks, stacks, frames, annotations, runs
    pub(super) sql: String,
    /// Files, folders, patterns and addresses of object stores
    #[arg(required = true, value_name = "URL")]
    pub(super) urls: Vec<String>,
    /// Choose the format of the answer; Parquet needs --output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(super) format: Format,
    /// Write the answer to a file, the whole file or nothing
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Print at most this many rows; 0 for all [default: 100 on a terminal, otherwise all]
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<usize>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ExportOptions {
    /// Write to this folder: TABLE/job=JOB/rank=RANK/NAME.parquet
    #[arg(long, value_name = "DIR")]
    pub(super) parquet: PathBuf,
    /// Files, folders, patterns and addresses of object stores
    #[arg(required = true, value_name = "URL")]
    pub(super) urls: Vec<String>,
}

/// How an answer is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Format {
    /// A table of text
    Table,
    /// Comma-separated values, with a header
    Csv,
    /// A JSON object a line
    Json,
    /// A Parquet file
    Parquet,
}
