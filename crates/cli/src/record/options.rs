//! The options of `memreel record`.

#![forbid(unsafe_code)]

use std::{ffi::OsString, path::PathBuf};

use crate::text::bytes::parse;

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("page").multiple(true))]
#[command(after_help = "\
`memreel record` records any program without changing it. It preloads
libmemreel_preload.so, which records what the program and its child processes
allocate through NVIDIA's driver, whether in PyTorch, JAX, CuPy, NCCL, cuBLAS or
your own CUDA code. With --heap, it also records malloc and related functions,
in any program.

PROGRAM keeps control of the terminal, and memreel exits with PROGRAM's exit
status. When PROGRAM ends, memreel writes a snapshot (with the rank and PID in
its name). If only the heap of a process was recorded, memreel writes a small
packed tape instead, which every command can read. For a pickle, which includes
the names of functions and opens in other viewers, use -o NAME.pickle or
`memreel convert`.

memreel also prints one line for each process that allocated memory and, for each
device, a table that shows what held the memory: each library, the driver, other
processes, and the rest. `memreel owners FILE...` prints the tables again. The
lines and the tables go to standard error. A process's recording survives even
SIGKILL.

--stacks, --signal, --every, --ring, --sample and --min-size can also be set as
keys in the environment variable MEMREEL. Snapshots from --signal, --every and
MEMREEL=dump=... (docs/triggers.md) are written next to PROGRAM's own.

--live serves the same page as `memreel view --live`. Neither --metrics nor
--live adds a thread to the program.

Examples:
  memreel record -- python train.py
  memreel record -o run.pickle -- torchrun --nproc-per-node 8 train.py
  memreel record --heap -- git status           leaves memreel-git-PID.tape
  memreel record --heap -o run.pickle -- git status
  memreel record --live -- python train.py      watch it in a browser
  memreel record --view -- python train.py      explore it afterwards

Exit status: that of PROGRAM, or 128 plus the signal number if a signal ended
it; 127 if PROGRAM is not found; 126 if it cannot be run. If memreel itself
fails before PROGRAM starts: 2 usage error; 3 a memreel library is missing or a
folder cannot be written to.")]
pub(crate) struct Options {
    /// Write PROGRAM's snapshot to FILE, whose name may contain {rank}, {pid}, {host} and {name}; snapshots
    /// of child processes are written next to it
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,

    /// Also record the heap: malloc and related functions
    #[arg(long)]
    pub(super) heap: bool,

    /// Record these frames: python, native (compiled code), all or none
    #[arg(long, value_name = "KIND")]
    pub(super) stacks: Option<String>,

    /// Write a snapshot on this signal: USR1, USR2 or a real-time signal's number
    #[arg(long, value_name = "SIGNAL")]
    pub(super) signal: Option<String>,

    /// Write a snapshot each time this much time has passed, such as 30s, or this much has been allocated,
    /// such as 10GiB
    #[arg(long, value_name = "INTERVAL")]
    pub(super) every: Option<String>,

    /// Keep at most this many events per device, dropping the oldest [default: 4000000]
    #[arg(long, value_name = "COUNT")]
    pub(super) ring: Option<String>,

    /// Record one allocation per BYTES bytes on average, for example 512KiB
    #[arg(long, value_name = "BYTES")]
    pub(super) sample: Option<String>,

    /// Skip allocations smaller than this
    #[arg(long, value_name = "BYTES")]
    pub(super) min_size: Option<String>,

    /// Serve metrics for Prometheus at http://ADDRESS/metrics while PROGRAM runs, for example 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS")]
    pub(super) metrics: Option<String>,

    /// Include this many call sites per device, with their names, in the metrics
    #[arg(long, value_name = "COUNT", requires = "metrics", default_value_t = 0, hide_default_value = true)]
    pub(super) metrics_sites: usize,

    /// Serve metrics only to clients that send the token in this file, as `Authorization: Bearer TOKEN`
    #[arg(long, value_name = "FILE", requires = "metrics")]
    pub(super) metrics_token: Option<PathBuf>,

    /// Serve a live page that shows what PROGRAM and its child processes hold, and open it in a browser
    #[arg(long, group = "page")]
    pub(super) live: bool,

    /// Print the address of the --live or --view page even if standard error is not a terminal; anyone who
    /// has the address can open the page
    #[arg(long, requires = "page")]
    pub(super) print_address: bool,

    /// Open PROGRAM's snapshot in `memreel view` when PROGRAM ends
    #[arg(long, group = "page")]
    pub(super) view: bool,

    /// Do not turn on PyTorch's own history; leave it as the program sets it
    #[arg(long)]
    pub(super) no_torch: bool,

    /// Write tapes (the raw recordings that snapshots are made from) to this folder while PROGRAM runs
    #[arg(long, value_name = "FOLDER")]
    pub(super) tapes: Option<PathBuf>,

    /// Stop recording new processes while tapes that are not yet saved as snapshots total more than this
    /// [default: 16GiB]
    #[arg(long, value_name = "BYTES", value_parser = parse)]
    pub(super) tape_space: Option<u64>,

    /// Keep the tapes when PROGRAM ends, next to the snapshot
    #[arg(long)]
    pub(super) keep_tape: bool,

    /// Print the per-process lines and the tables to standard error as JSON objects, one per line
    #[arg(long)]
    pub(super) json: bool,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(super) program: Vec<OsString>,
}
