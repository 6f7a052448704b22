//! What each process of a run recorded: a snapshot and a line for each, and the table over all.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    fs, io,
    io::Write,
    path::{Path, PathBuf},
};

use memreel::Recovered;
use memreel_snapshot::{Snapshot, pickle};
use serde_json::json;

use super::{
    folder::{Folder, TapeFile},
    names::{Names, short_name},
    options::Options,
    recorded::Recorded,
    table,
};
use crate::{
    bytes::Bytes,
    failure::Failure,
    progress::Waiting,
    text::count,
    torch_dump::{self, TorchDump},
};

/// Writes the snapshots of a run, and prints its lines and its table.
pub(super) fn save(
    options: &Options,
    folder: &Folder,
    names: &Names,
    program: u32,
    out: &mut impl Write,
) -> io::Result<()> {
    let (mut taken, mut processes) = (BTreeSet::new(), Vec::new());
    let mut all = Vec::new();
    // The last program of a process has the plain name, so it comes first here.
    for tape in folder.tapes()?.into_iter().rev() {
        let is_later = |(_, saved): &&(TapeFile, Result<Option<Recorded>, Failure>)| matches!(saved, Ok(Some(later)) if later.tape.process == tape.process);
        let n_later = all.iter().filter(is_later).count();
        let waiting = Waiting::new(format!("reading what process {} recorded", tape.process));
        let name = |tape: &TapeFile| names.of(tape, n_later, program, &mut taken);
        let saved = save_one(tape.clone(), n_later > 0, name);
        drop(waiting);
        all.push((tape, saved));
    }
    for (tape, saved) in all.into_iter().rev() {
        match saved {
            Ok(None) => forget(&tape),
            Ok(Some(process)) => {
                print(options, &process, out)?;
                if !options.keep_tape && !process.is_running {
                    forget(&tape);
                } else if !options.json {
                    let (process, path) = (tape.process, tape.path.display());
                    writeln!(out, "memreel: the tape of process {process} is {path}")?;
                }
                processes.push(process);
            }
            Err(failure) => {
                let kept = format!("process {}, whose tape is {}", tape.process, tape.path.display());
                failure.of_file(&kept).report()?;
            }
        }
    }
    if processes.is_empty() && !options.json {
        nothing(options, out)?;
    }
    table::print(&processes, options.json, out)
}

/// Removes a tape that has become a snapshot, or that is empty. One that cannot be removed stays in the folder.
fn forget(tape: &TapeFile) {
    let _ = fs::remove_file(&tape.path);
    TorchDump::remove(&tape.path, tape.process);
}

/// Writes the snapshot of one program of a process, to the path that `name` returns; `None` if it recorded nothing.
/// `has_ended` if the process ran another program later.
fn save_one(
    tape: TapeFile,
    has_ended: bool,
    name: impl FnOnce(&TapeFile) -> PathBuf,
) -> Result<Option<Recorded>, Failure> {
    let recovered = Recovered::read(&tape.path)?;
    let n_events = recovered.n_events();
    if n_events == 0 {
        return Ok(None);
    }
    let mut problems = recovered.problems().to_vec();
    let snapshot = with_torch(recovered.snapshot(), &tape, &mut problems);
    let path = name(&tape);
    pickle::save(&snapshot, &path)?;
    problems.extend(table::refusals(&snapshot, &path));
    Ok(Some(Recorded {
        peak_bytes: table::peak_bytes(&snapshot),
        path,
        snapshot,
        n_events,
        problems,
        is_running: !has_ended && recovered.is_running() && !recovered.is_closed(),
        tape,
    }))
}

/// Adds PyTorch's blocks to a snapshot, if PyTorch wrote some. What went wrong is added to the problems.
fn with_torch(snapshot: Snapshot, tape: &TapeFile, problems: &mut Vec<String>) -> Snapshot {
    let TorchDump { pickle, note } = TorchDump::beside(&tape.path, tape.process);
    problems.extend(note);
    let Some(pickle) = pickle else { return snapshot };
    match torch_dump::merged(snapshot.clone(), &pickle) {
        Ok((merged, when)) => {
            problems.extend((when.contains("before the last event")).then_some(when));
            merged
        }
        Err(failure) => {
            problems.push(format!("PyTorch's blocks are missing: {failure}"));
            snapshot
        }
    }
}

fn print(options: &Options, process: &Recorded, out: &mut impl Write) -> io::Result<()> {
    let Recorded { tape, path, n_events, peak_bytes, problems, is_running, .. } = process;
    if options.json {
        let line = json!({
            "process": tape.process, "rank": tape.rank, "file": path.display().to_string(), "events": n_events,
            "peak_bytes": peak_bytes, "is_running": is_running, "problems": problems,
            "tape": (options.keep_tape || *is_running).then(|| tape.path.display().to_string()),
        });
        return writeln!(out, "{line}");
    }
    let rank = tape.rank.as_ref().map_or_else(String::new, |rank| format!(", rank {rank}"));
    let running = if *is_running { ", which still runs" } else { "" };
    writeln!(
        out,
        "memreel: process {}{rank}{running}: {}, peak {}, {}",
        tape.process,
        count(*n_events, "event"),
        Bytes(*peak_bytes),
        shown(path)
    )?;
    problems.iter().try_for_each(|problem| writeln!(out, "memreel: process {}: {problem}", tape.process))
}

/// Prints that no process recorded anything.
fn nothing(options: &Options, out: &mut impl Write) -> io::Result<()> {
    let hint = if options.heap { "" } else { "; --heap records the heap of any program" };
    let what = if options.heap { "allocated nothing that is recorded" } else { "asked no GPU for memory" };
    writeln!(out, "memreel: {} {what}{hint}", short_name(&options.program[0]))
}

fn shown(path: &Path) -> String {
    path.strip_prefix(".").unwrap_or(path).display().to_string()
}
