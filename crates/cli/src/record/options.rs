//! The options of `memreel record`.

#![forbid(unsafe_code)]

use std::{ffi::OsString, path::PathBuf};

use crate::text::bytes::parse;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Records any unmodified program: libmemreel_preload.so, which is preloaded,
records what the program and its children allocate through NVIDIA's driver, in
PyTorch, JAX, CuPy, NCCL, cuBLAS or your own CUDA code. With --heap, malloc and
its relatives are also recorded, in any program.

PROGRAM keeps the terminal, and its exit status is the status of this command.
When it ends, memreel writes a snapshot (with rank and PID in its name) and
prints one line for each process that allocated memory, and a table for each
device of who held the memory: each library, the driver, other processes, the
rest. `memreel owners FILE...` prints the table again; lines and table go to
standard error. What a process recorded survives SIGKILL.

--stacks, --signal, --every, --ring, --sample and --min-size are keys of the
variable MEMREEL, and may be set there instead. Snapshots from --signal, --every
and MEMREEL=dump=... are written next to PROGRAM's.

--metrics serves metrics for Prometheus, and --live the page of
`memreel view --live`, without adding a thread to the program.

Example:
  memreel record -- python train.py
  memreel record -o run.pickle -- torchrun --nproc-per-node 8 train.py
  memreel record --heap -- git status
  memreel record --live -- python train.py      watch it in a browser

Exit status: that of PROGRAM, or 128 plus the signal's number if a signal ended
it; 127 if there is no such program, 126 if it cannot be run; 2 wrong usage, 3 a
missing memreel library or a folder that cannot be written, before PROGRAM
runs.")]
pub(crate) struct Options {
    /// Write PROGRAM's snapshot to FILE, which may contain {rank}, {pid}, {host} and {name}; those of its
    /// children go next to it
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,

    /// Also record the heap: malloc and its relatives
    #[arg(long)]
    pub(super) heap: bool,

    /// Record Python frames, compiled-code frames, all frames, or none
    #[arg(long, value_name = "KIND")]
    pub(super) stacks: Option<String>,

    /// Write a snapshot on this signal: USR1, USR2 or a real-time signal's number
    #[arg(long, value_name = "SIGNAL")]
    pub(super) signal: Option<String>,

    /// Write a snapshot at this interval: a time such as 30s, or allocated bytes such as 10GiB
    #[arg(long, value_name = "INTERVAL")]
    pub(super) every: Option<String>,

    /// Keep this many events per device [default: 4000000]
    #[arg(long, value_name = "COUNT")]
    pub(super) ring: Option<String>,

    /// Record one allocation per BYTES bytes on average, for example 512KiB
    #[arg(long, value_name = "BYTES")]
    pub(super) sample: Option<String>,

    /// Skip smaller allocations
    #[arg(long, value_name = "BYTES")]
    pub(super) min_size: Option<String>,

    /// Serve metrics for Prometheus at http://ADDRESS/metrics while PROGRAM runs, for example 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS")]
    pub(super) metrics: Option<String>,

    /// Include this many sites per device in the metrics, by name
    #[arg(long, value_name = "COUNT", requires = "metrics", default_value_t = 0, hide_default_value = true)]
    pub(super) metrics_sites: usize,

    /// Require the token in this file for the metrics, as `Authorization: Bearer TOKEN`
    #[arg(long, value_name = "FILE", requires = "metrics")]
    pub(super) metrics_token: Option<PathBuf>,

    /// Serve a page that shows what PROGRAM and its children hold while they run, and open it in a browser
    #[arg(long)]
    pub(super) live: bool,

    /// Print the page's address even if standard error is not a terminal; it gives access to the page
    #[arg(long, requires = "live")]
    pub(super) print_address: bool,

    /// Leave PyTorch's own history as the program sets it
    #[arg(long)]
    pub(super) no_torch: bool,

    /// Keep the tapes, from which snapshots are made, in this folder while PROGRAM runs
    #[arg(long, value_name = "FOLDER")]
    pub(super) tapes: Option<PathBuf>,

    /// Leave new processes unrecorded while this much tape waits to be saved [default: 16GiB]
    #[arg(long, value_name = "BYTES", value_parser = parse)]
    pub(super) tape_space: Option<u64>,

    /// Keep the tapes, next to the snapshot
    #[arg(long)]
    pub(super) keep_tape: bool,

    /// Print the lines and the table as JSON objects, one per line, on standard error
    #[arg(long)]
    pub(super) json: bool,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(super) program: Vec<OsString>,
}
