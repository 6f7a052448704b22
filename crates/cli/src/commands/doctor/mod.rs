//! `memreel doctor`: what works on this machine, and what to do about the rest.

#![forbid(unsafe_code)]

mod finding;
mod gpu;
mod look;
mod recording;
mod trial;

use std::{ffi::OsString, io::Write};

use crate::{exit::Exit, failure::Failure, row::Program, text::Page};

use finding::{Finding, State};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
`memreel doctor` tests what memreel needs: it records the heap of two short
programs in a temporary folder, loads NVIDIA's libraries, and opens a port for
the page. It does not use the GPU, and neither reads nor changes your files. For
each part it prints whether it works, and what to do if it does not. This takes
a few seconds.

PROGRAM is a program that you want to record. It is inspected, but not started.

Examples:
  memreel doctor
  memreel doctor ./server
  memreel doctor --json

Exit status: 0 everything that `memreel record` needs works; 1 something that it
needs does not work; 2 usage error.")]
pub(crate) struct Options {
    /// Also check whether this program can be recorded
    #[arg(value_name = "PROGRAM")]
    program: Option<OsString>,

    /// Print one JSON object per part, one per line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options, program: &Program, out: &mut Page) -> Result<Exit, Failure> {
    if out.is_in_memory() {
        return Err(Failure::usage("the doctor starts programs; run `memreel doctor` as a program"));
    }
    let mut worst = Exit::Fine;
    for find in checks(options, program) {
        let finding: Finding = find();
        if finding.is_needed && finding.state == State::DoesNotWork {
            worst = Exit::Broken;
        }
        if options.json {
            finding.print_json(out)?
        } else {
            finding.print(out)?
        }
        // A trial takes a second; results so far are shown meanwhile.
        out.flush()?;
    }
    Ok(worst)
}

/// A part, which is tried when it is called.
type Check<'a> = Box<dyn FnOnce() -> Finding + 'a>;

/// Returns the parts, in the order of the lines.
fn checks<'a>(options: &'a Options, program: &'a Program) -> Vec<Check<'a>> {
    let mut checks: Vec<Check<'a>> = vec![
        Box::new(recording::libraries),
        Box::new(|| recording::heap(&program.words)),
        Box::new(|| recording::python(&program.words)),
        Box::new(gpu::driver),
        Box::new(gpu::management),
        Box::new(look::processes),
        Box::new(look::page),
        Box::new(look::browser),
    ];
    if let Some(recorded) = &options.program {
        checks.insert(1, Box::new(|| recording::program(recorded)));
    }
    checks
}
