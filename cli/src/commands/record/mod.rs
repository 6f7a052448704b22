//! `memreel record`: runs a program and records the memory that it asks for.

#![forbid(unsafe_code)]

mod child;
mod environment;
mod folder;
mod libraries;
mod names;
mod preloadable;
mod processes;
mod table;

use std::{
    ffi::OsString,
    io::{self, Write},
    path::PathBuf,
    process,
};

use crate::{exit::Exit, failure::Failure};

use child::Ended;
use folder::Folder;
use libraries::Libraries;
use names::Names;

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

Example:
  memreel record -- python train.py
  memreel record -o run.pickle -- torchrun --nproc-per-node 8 train.py
  memreel record --heap -- git status

Exit status: that of PROGRAM, 128 and the signal's number if a signal ended it;
127 if there is no such program, 126 if it cannot be run; 2 wrong usage, 3 a
library of memreel that is missing or a folder that cannot be written, before
PROGRAM runs.")]
pub(crate) struct Options {
    /// Write the snapshot of PROGRAM to this file; those of its children are beside it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Record the heap too: malloc and its relatives
    #[arg(long)]
    heap: bool,

    /// Record the frames of Python, of compiled code, all, or none
    #[arg(long, value_name = "KIND")]
    stacks: Option<String>,

    /// Write a snapshot at this signal: USR1, USR2 or the number of a real-time signal
    #[arg(long, value_name = "SIGNAL")]
    signal: Option<String>,

    /// Write a snapshot every 30s, or every 10GiB that are allocated
    #[arg(long, value_name = "OFTEN")]
    every: Option<String>,

    /// Keep this number of events for each device [default: 4000000]
    #[arg(long, value_name = "COUNT")]
    ring: Option<String>,

    /// Record one allocation in so many bytes, for example 512KiB
    #[arg(long, value_name = "BYTES")]
    sample: Option<String>,

    /// Leave out smaller allocations
    #[arg(long, value_name = "BYTES")]
    min_size: Option<String>,

    /// Leave PyTorch's own history as the program sets it
    #[arg(long)]
    no_torch: bool,

    /// Keep the tapes, from which snapshots are made
    #[arg(long)]
    keep_tape: bool,

    /// Print the lines and the table as JSON objects, one a line, on standard error
    #[arg(long)]
    json: bool,

    /// The program, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(crate) fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    out.flush()?;
    let names = Names::new(options.output.as_deref(), &options.program[0])?;
    let asked = environment::memreel(options, &names)?;
    let libraries = Libraries::find(options.heap)?;
    let folder = Folder::create(names.folder())?;
    if let Some(why) = preloadable::why_not(&options.program[0]) {
        eprintln!("memreel: {why}; it runs unrecorded");
    }
    let variables = environment::variables(options, &asked, &libraries, folder.path());
    let ended = child::run(&options.program, &variables);
    if let Ended::At { process, .. } = ended {
        // What cannot be read or written has been said; the status is the program's.
        let mut err = io::stderr().lock();
        let _ = processes::save(options, &folder, &names, process, &mut err);
    }
    folder.remove_if_empty();
    // The statuses of programs are any number, and not those of this program.
    process::exit(ended.status())
}
