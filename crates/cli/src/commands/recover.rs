//! `memreel recover`: creates a snapshot from a tape, even if the recording process crashed.

#![forbid(unsafe_code)]

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use memreel::Recovered;
use memreel_snapshot::pickle;
use serde_json::json;

use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opener, each_path, torch_dump::merged, unreadable},
    options::output::needs_folder,
    text::{Page, ShownPath, Waiting, print_text},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A tape is the file that a program records into, set by MEMREEL_TAPE=FILE or, in
the library, by Recording::tape. Even after SIGKILL or abort, it contains every
event whose record call has returned. Names are looked up in the program and its
libraries, which must be the ones that ran. Those that are missing are listed,
and their frames remain addresses with the library and the offset. All other
commands also read tapes.

The tape is not changed, and a process that is still recording is not disturbed.
With --follow, the snapshot is written repeatedly until the process ends. A tape
must be a file, not standard input or a pipe.

--torch takes a snapshot that torch.cuda.memory._dump_snapshot wrote in the same
process, and puts its blocks into the driver's segments. The driver's events
that follow the dump are kept.

Examples:
  memreel recover run.tape -o snapshot.pickle --follow 5

Exit status: 0 done; 1 part of the tape is missing; 2 usage error; 3 a file
cannot be read or written, or is not a tape.")]
pub(crate) struct Options {
    /// Write the snapshot to this file, or to this folder as NAME.pickle
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Write the snapshot every SECONDS seconds until the process ends
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    follow: Option<u64>,

    /// Add PyTorch's blocks from this snapshot, which PyTorch wrote in the same process
    #[arg(long, value_name = "PICKLE", conflicts_with = "follow")]
    torch: Option<PathBuf>,

    /// Print one JSON object per file, one per line
    #[arg(long)]
    json: bool,

    /// Tapes
    #[arg(required = true, value_name = "TAPE")]
    files: Vec<PathBuf>,
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    if options.files.len() > 1 && !options.output.is_dir() {
        return Err(needs_folder());
    }
    if options.files.len() > 1 && options.follow.is_some() {
        return Err(Failure::usage("--follow takes one tape"));
    }
    if options.files.len() > 1 && options.torch.is_some() {
        return Err(Failure::usage("--torch takes one tape, that of the same process"));
    }
    each_path(&options.files, |file| {
        loop {
            let tape = recover(file, options, opener, out)?;
            match options.follow {
                Some(seconds) if tape.is_running() && !tape.is_closed() => {
                    out.flush()?;
                    thread::sleep(Duration::from_secs(seconds));
                }
                _ => return Ok(if tape.problems().is_empty() { Exit::Fine } else { Exit::Broken }),
            }
        }
    })
}

fn recover(file: &Path, options: &Options, opener: &Opener, out: &mut Page) -> Result<Recovered, Failure> {
    let waiting = Waiting::new(format!("reading {}", ShownPath(&file)));
    let tape = Recovered::read(file).map_err(unreadable)?;
    let path = output_path(file, &options.output);
    if let (Ok(from), Ok(to)) = (fs::canonicalize(file), fs::canonicalize(&path))
        && from == to
    {
        return Err(Failure::usage("-o is the tape itself, which must be kept; give another file"));
    }
    let torch = match &options.torch {
        Some(torch) => {
            let (merged, when) = merged(tape.snapshot(), torch, opener)?;
            pickle::save(&merged, &path)?;
            Some(when)
        }
        None => {
            tape.save(&path)?;
            None
        }
    };
    drop(waiting);
    print(&tape, file, &path, options.json, torch.as_deref(), out)?;
    Ok(tape)
}

fn output_path(file: &Path, output: &Path) -> PathBuf {
    match file.file_name() {
        Some(name) if output.is_dir() => output.join(name).with_extension("pickle"),
        _ => output.to_owned(),
    }
}

fn print(
    tape: &Recovered,
    file: &Path,
    path: &Path,
    json: bool,
    torch: Option<&str>,
    out: &mut Page,
) -> io::Result<()> {
    let (file, path) = (ShownPath(&file), ShownPath(&path));
    if json {
        let mut line = json!({
            "file": file.to_string(),
            "written": path.to_string(),
            "process": tape.process(),
            "is_running": tape.is_running(),
            "is_closed": tape.is_closed(),
            "n_events": tape.n_events(),
            "problems": tape.problems(),
        });
        if let Some(torch) = torch {
            line["torch"] = torch.into();
        }
        return writeln!(out, "{line}");
    }
    for problem in tape.problems() {
        print_text(format!("{file}: {problem}"), out)?;
    }
    let state = match (tape.is_closed(), tape.is_running()) {
        (true, _) => "which ended its recording",
        (false, true) => "which is still recording",
        // Killed, or at its end: the reel of a process is never dropped.
        (false, false) => "which is no longer running",
    };
    let n_events = tape.n_events();
    print_text(
        format!("{file}: {n_events} events of process {}, {state}; written to {path}", tape.process()),
        out,
    )?;
    match torch {
        Some(torch) => print_text(format!("  {torch}"), out),
        None => Ok(()),
    }
}
