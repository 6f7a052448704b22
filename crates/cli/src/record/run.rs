//! The end of a run: reports what was not recorded, and writes the file that names the snapshots.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::Path,
};

use serde_json::json;

use super::{
    bystander::{Bystander, Why, grouped},
    names::short_name,
    options::Options,
    told,
};
use crate::{
    input::run_file::RunFile,
    options::output::replace,
    text::{Page, ShownPath},
};

/// The most lines about what was not recorded.
const MOST_LINES: usize = 8;

/// Returns the processes that are not recorded, each once: those that were seen, those that the preloaded library reported, and the
/// program if `unrecorded` is why nothing can be loaded in front of it.
pub(super) fn bystanders(
    mut seen: Vec<Bystander>,
    folder: &Path,
    program: u32,
    unrecorded: Option<String>,
    options: &Options,
) -> Vec<Bystander> {
    let mut of_process = BTreeMap::<u32, Vec<usize>>::new();
    seen.iter().enumerate().for_each(|(nth, of)| of_process.entry(of.process).or_default().push(nth));
    for told in told::bystanders(folder) {
        let known = of_process.get(&told.process).map_or(&[][..], |known| known);
        if !known.iter().any(|known| is_same(&seen[*known], &told)) {
            seen.push(told);
        }
    }
    if let Some(why) = unrecorded.filter(|_| seen.iter().all(|of| of.process != program)) {
        let name = short_name(&options.program[0]);
        seen.push(Bystander { process: program, name, why: Why::Program(why) });
    }
    seen
}

/// Whether a process that was seen is the one that was reported: the name of a script has its interpreter's when it runs, and a
/// process may have run several programs. One with another allocator in front has the libraries, and is not seen.
fn is_same(seen: &Bystander, told: &Bystander) -> bool {
    let is_program = seen.name == told.name || seen.why == told.why;
    told.process != 0 && told.why != Why::Behind && is_program
}

/// Prints what was not recorded, and which calls failed.
pub(super) fn print(
    run: &RunFile,
    bystanders: &[Bystander],
    program: u32,
    path: &Path,
    is_json: bool,
    out: &mut Page,
) -> io::Result<()> {
    // When the program starts, a line reports that nothing can be preloaded into it.
    let is_said = |of: &&Bystander| of.process == program && matches!(of.why, Why::Program(_));
    let unsaid: Vec<Bystander> = bystanders.iter().filter(|of| !is_said(of)).cloned().collect();
    let groups = grouped(&unsaid);
    let shown = path.strip_prefix(".").unwrap_or(path);
    for call in &run.failed_calls {
        match is_json {
            true => writeln!(out, "{}", json!({"failed_call": call}))?,
            false => writeln!(out, "memreel: {call}")?,
        }
    }
    for group in groups.iter().take(if is_json { usize::MAX } else { MOST_LINES }) {
        match is_json {
            true => writeln!(out, "{}", json!({"not_recorded": group}))?,
            false => writeln!(out, "memreel: {group}")?,
        }
    }
    if groups.len() > MOST_LINES && !is_json {
        let n: u64 = groups[MOST_LINES..].iter().map(|group| group.n_processes).sum();
        writeln!(out, "memreel: {n} more ran unrecorded, listed in {}", ShownPath(&shown))?;
    }
    Ok(())
}

/// Writes the file of the run, if there is anything to name, and prints where it is if it has more than one snapshot.
pub(super) fn write(run: &RunFile, path: &Path, is_json: bool, out: &mut Page) -> io::Result<()> {
    if run.processes.is_empty() && run.not_recorded.is_empty() && run.failures.is_empty() {
        return Ok(());
    }
    let shown = path.strip_prefix(".").unwrap_or(path);
    let written = replace(path, |file| {
        serde_json::to_writer_pretty(&mut *file, run)?;
        file.write_all(b"\n")
    });
    match written {
        Err(failure) => writeln!(out, "memreel: {failure}"),
        Ok(()) if is_json => writeln!(out, "{}", json!({"run": shown.display().to_string()})),
        Ok(()) if run.processes.len() > usize::from(run.not_recorded.is_empty()) => {
            writeln!(
                out,
                "memreel: {} lists all files of this run; pass it to `memreel gate` to check the whole run",
                ShownPath(&shown)
            )
        }
        Ok(()) => Ok(()),
    }
}
