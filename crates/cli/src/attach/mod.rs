//! `memreel attach`: records PyTorch's history of a running process.
//!
//! `target` is the process, `identity` has what must not change in it, `interpreter` the facts about its CPython, and
//! `elf` the addresses in its files. `folder` is where both meet; `deputy` creates it with the target's rights. The
//! script `injected.py` enters the process through `remote` or `gdb`, and communicates over a socket (`talk`). `rights`
//! checks what permits it, and `answer` has the outcome.

#![forbid(unsafe_code)]

mod answer;
mod end_requests;
mod deputy;
mod elf;
mod entry;
mod folder;
mod gdb;
mod identity;
mod interpreter;
mod remote;
mod rights;
mod talk;
mod target;

use std::{path::PathBuf, time::Duration};

use memreel::integrate::duration;

use crate::{
    exit::Exit,
    failure::Failure,
    row::Program,
    text::{Page, bytes},
};

use answer::Answer;
use end_requests::{EndRequests, Output};
use entry::Entry;
use interpreter::Interpreter;
use target::Target;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
`memreel attach` records a running process without restarting it: it injects a
short script that turns PyTorch's history on. The snapshot is written after
--for, on Ctrl-C, or when the program ends; then, if the history was off before,
it is turned off again. memreel leaves nothing in the process, except a 4 KiB
page if gdb was needed.

For CPython 3.14 and later, memreel needs an interpreter of the same version;
for earlier versions, and for processes in a container when memreel runs
outside, it needs gdb. In both cases, it must be allowed to trace the process:
run it as the user of the process, or as root in a container or if
kernel.yama.ptrace_scope is not 0.

Blocks allocated before memreel attached have no stack, and what other libraries
hold is known only as one sum, which the device reports; the output includes
both. `memreel record` shows them in detail.

Examples:
  memreel attach 4711 --for 60s
  memreel attach 4711 -o now.pickle

Exit status: 0 written; 2 usage error, or a process without PyTorch; 3 the
process cannot be attached to or did not respond.")]
pub(crate) struct Options {
    /// Write the snapshot to this file [default: memreel-PID.pickle]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Write the snapshot after this time, for example 60s or 5min, unless Ctrl-C or the end of the process
    /// comes first
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    time: Option<Duration>,

    /// Wait at most this long for the process to run the script
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    wait: Duration,

    /// Keep this many events per device
    #[arg(long, value_name = "COUNT", default_value_t = 250_000, value_parser = clap::value_parser!(u32).range(2..))]
    ring: u32,

    /// Reject a snapshot larger than this, in case the process never stops sending data
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse, default_value = "8GiB")]
    max_size: u64,

    /// Be the deputy of another `memreel attach`
    #[arg(long, hide = true)]
    deputy: bool,

    /// The process to record
    #[arg(value_name = "PID")]
    process: u32,
}

fn time(text: &str) -> Result<Duration, String> {
    duration(text).ok_or_else(|| format!("{text:?} is not a time; use for example 60s or 5min"))
}

pub(crate) fn run(options: &Options, program: &Program, out: &mut Page) -> Result<Exit, Failure> {
    if options.deputy {
        return deputy::run(options.process);
    }
    // Checked before the process is touched, because a result that cannot be written is useless.
    let name = || PathBuf::from(format!("memreel-{}.pickle", options.process));
    let path = options.output.clone().unwrap_or_else(name);
    let target = Target::find(options.process)?;
    let interpreter = Interpreter::of(&target)?;
    rights::check(&target)?;
    let (output, mut answer) = (Output::of(path)?, None);
    let is_written = output.fill(|file| {
        let asked = EndRequests::new()?;
        let mut talk =
            Entry::of(&target, &interpreter)?.enter(program, options.ring, options.wait, &asked)?;
        let begun = talk.begun(&asked)?;
        answer::say_begun(&target, &interpreter, &begun, options.time);
        let (ended, time) = talk.ended(options.time, &asked)?;
        let has_snapshot = ended.n_events.is_some();
        if has_snapshot {
            talk.snapshot(file, options.max_size, &asked)?;
        }
        let (target, interpreter) = (&target, &interpreter);
        answer = Some(Answer { target, interpreter, begun, ended, time, path: output.path() });
        Ok(has_snapshot)
    })?;
    answer.iter().try_for_each(|answer| answer.print(out))?;
    Ok(if is_written { Exit::Fine } else { Exit::Unreadable })
}
