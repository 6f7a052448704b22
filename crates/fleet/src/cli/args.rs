//! The command line.

use std::{net::IpAddr, path::PathBuf};

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

/// Ask many GPU memory snapshots at once, in SQL.
#[derive(Debug, Parser)]
#[command(
    name = "memreel-fleet",
    version,
    after_help = "\
A URL is a file, a folder, a pattern in quotes, or an object store address
(s3://, gs://, az://). It names pickles written by PyTorch or memreel, memreel
tapes, or a folder written by export.

Examples:
  memreel-fleet query \"select rank, peak_bytes from runs order by 2 desc\" run/
  memreel-fleet export --parquet out run/
  memreel-fleet tables

On a cluster, with the files on a shared disk or in an object store:
  memreel-fleet scheduler --listen 0.0.0.0 --host node0
  memreel-fleet executor --listen 0.0.0.0 --host node1 df://node0:50050
  memreel-fleet query --ballista df://node0:50050 \"select …\" s3://bucket/run/"
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
    /// Run the scheduler of a Ballista cluster, which plans queries and assigns tasks to executors.
    Scheduler(SchedulerWords),
    /// Run an executor of a Ballista cluster, which reads files for queries.
    Executor(ExecutorWords),
}

#[derive(Debug, ClapArgs)]
pub(super) struct QueryOptions {
    /// The query; the tables are events, allocations, segments, blocks, stacks, frames, annotations, runs, and the functions
    /// live_at, metadata, peak, stack_contains, top_frame; `memreel-fleet tables` lists the columns
    pub(super) sql: String,
    /// Files, folders, patterns, or object store addresses
    #[arg(required = true, value_name = "URL")]
    pub(super) urls: Vec<String>,
    /// Choose the format of the answer; Parquet needs --output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(super) format: Format,
    /// Write the answer to this file, atomically
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Print at most this many rows; 0 for all [default: 100 on a terminal, otherwise all]
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<usize>,
    /// Run the query on this scheduler's cluster; its executors read the files
    #[arg(long, value_name = "df://HOST:PORT")]
    pub(super) ballista: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ExportOptions {
    /// Write to this folder: TABLE/job=JOB/rank=RANK/NAME.parquet
    #[arg(long, value_name = "DIR")]
    pub(super) parquet: PathBuf,
    /// Files, folders, patterns, or object store addresses
    #[arg(required = true, value_name = "URL")]
    pub(super) urls: Vec<String>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
There are no passwords: any program that reaches the port can run queries, and
so read whatever the executors can read. Keep the port on a trusted network.")]
pub(super) struct SchedulerWords {
    /// Listen on this address; 0.0.0.0 for all networks of this machine
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(super) listen: IpAddr,
    /// Listen on this port
    #[arg(long, value_name = "PORT", default_value_t = 50050, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) port: u16,
    /// Tell executors to connect to this machine by this name
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    pub(super) host: String,
    /// Drop an executor that has been silent for this many seconds, and run its tasks elsewhere
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) executor_timeout: u64,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "\
It reads files with the permissions and keys of this process. There are no
passwords: keep its ports on a network whose users may read whatever it can.")]
pub(super) struct ExecutorWords {
    /// The cluster's scheduler
    #[arg(value_name = "df://HOST:PORT")]
    pub(super) scheduler: String,
    /// Listen on this address; 0.0.0.0 for all networks of this machine
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(super) listen: IpAddr,
    /// Listen on this port for results, and on the next one for tasks
    #[arg(long, value_name = "PORT", default_value_t = 50051, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) port: u16,
    /// Tell the others to connect to this machine by this name
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    pub(super) host: String,
    /// Read this many files at once [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) cores: Option<u16>,
    /// Keep parts of answers in a new folder inside this one, for a few minutes [default: the folder for
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    pub(super) folder: Option<PathBuf>,
    /// Report to the scheduler every SECONDS, several times within its --executor-timeout
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) heartbeat: u64,
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
