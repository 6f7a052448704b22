//! The options of `memreel record`.

#![forbid(unsafe_code)]

use std::{ffi::OsString, path::PathBuf};

use crate::text::bytes::parse;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Any program, without a change: libmemreel_preload.so, which is loaded in front
of it, records what the program and its children ask of NVIDIA's driver,
however they find it: PyTorch, JAX, CuPy, NCCL, cuBLAS, your own CUDA. With
--heap, malloc and its relatives are recorded too, in any program.

PROGRAM has the terminal, and its exit status is the status of this command.
When it has ended, each process that allocated memory has a snapshot (rank and
number of the process are in its name) and a line, and a table of each device
says who has the memory: each library, the driver, other processes, the rest.
`memreel owners FILE...` prints the table again; lines and table are on
standard error. What a process recorded survives SIGKILL.

--stacks, --signal, --every, --ring, --sample and --min-size are the keys of
the variable MEMREEL, and may be there instead. Dumps of --signal, --every and
MEMREEL=dump=... are files beside the snapshot of PROGRAM.

--metrics serves numbers for Prometheus, and --live the page of
`memreel view --live`; the program has no thread for them.

Example:
  memreel record -- python train.py
  memreel record -o run.pickle -- torchrun --nproc-per-node 8 train.py
  memreel record --heap -- git status
  memreel record --live -- python train.py      watch it in a browser

Exit status: that of PROGRAM, 128 and the signal's number if a signal ended it;
127 if there is no such program, 126 if it cannot be run; 2 wrong usage, 3 a
library of memreel that is missing or a folder that cannot be written, before
PROGRAM runs.")]
pub(crate) struct Options {
    /// Write the snapshot of PROGRAM to this file, with {rank}, {pid}, {host}, {name}; those of its children are beside it
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,

    /// Record the heap too: malloc and its relatives
    #[arg(long)]
    pub(super) heap: bool,

    /// Record the frames of Python, of compiled code, all, or none
    #[arg(long, value_name = "KIND")]
    pub(super) stacks: Option<String>,

    /// Write a snapshot at this signal: USR1, USR2 or the number of a real-time signal
    #[arg(long, value_name = "SIGNAL")]
    pub(super) signal: Option<String>,

    /// Write a snapshot every 30s, or every 10GiB that are allocated
    #[arg(long, value_name = "OFTEN")]
    pub(super) every: Option<String>,

    /// Keep this number of events for each device [default: 4000000]
    #[arg(long, value_name = "COUNT")]
    pub(super) ring: Option<String>,

    /// Record one allocation in BYTES bytes on average, for example 512KiB
    #[arg(long, value_name = "BYTES")]
    pub(super) sample: Option<String>,

    /// Leave out smaller allocations
    #[arg(long, value_name = "BYTES")]
    pub(super) min_size: Option<String>,

    /// Serve metrics for Prometheus at http://ADDRESS/metrics while PROGRAM runs, for example 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS")]
    pub(super) metrics: Option<String>,

    /// Have this number of sites of each device in the metrics, by name
    #[arg(long, value_name = "COUNT", requires = "metrics", default_value_t = 0, hide_default_value = true)]
    pub(super) metrics_sites: usize,

    /// Serve the metrics to those who send the token in this file, as `Authorization: Bearer TOKEN`
    #[arg(long, value_name = "FILE", requires = "metrics")]
    pub(super) metrics_token: Option<PathBuf>,

    /// Serve a page that shows what PROGRAM and its children hold while they run, and open it in a browser
    #[arg(long)]
    pub(super) live: bool,

    /// Print the address of the page also where standard error is no terminal; it is a key to the page
    #[arg(long, requires = "live")]
    pub(super) print_address: bool,

    /// Leave PyTorch's own history as the program sets it
    #[arg(long)]
    pub(super) no_torch: bool,

    /// Have the tapes, from which snapshots are made, in this folder while PROGRAM runs
    #[arg(long, value_name = "FOLDER")]
    pub(super) tapes: Option<PathBuf>,

    /// Run new processes unrecorded while tapes of this size wait to be saved [default: 16GiB]
    #[arg(long, value_name = "BYTES", value_parser = parse)]
    pub(super) tape_space: Option<u64>,

    /// Keep the tapes, beside the snapshot
    #[arg(long)]
    pub(super) keep_tape: bool,

    /// Print the lines and the table as JSON objects, one a line, on standard error
    #[arg(long)]
    pub(super) json: bool,

    /// The program, and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(super) program: Vec<OsString>,
}
