//! What each process of a run recorded: a snapshot and a line for each, one after the other, and the table over all.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use memreel::{PackedTape, Recovered, RunNames, TapeKeeper, TapeProcess, integrate, owners_snapshot};
use memreel_snapshot::{Snapshot, analysis::RunOwners, pickle};
use serde_json::json;

use super::{
    backlog::MOST,
    bystander::{Bystander, Why, grouped},
    helpers,
    keeper::Keeper,
    names::{Form, Names, short_name},
    options::Options,
    recorded::Recorded,
    run,
    table::{self, Peak},
    told,
};
use crate::{
    failure::Failure,
    input::{
        Opener,
        run_file::{ENDING, NotRecorded, RunFile, RunProcess},
        torch_dump::{self, TorchDump},
    },
    run::tape_file::{TapeFile, tapes_in},
    text::{Bytes, Page, ShownPath, Waiting, count, shell_word},
};

/// The snapshots with this number of events are on the disk before their tapes are removed. Of short processes there are
/// thousands, and each flush takes milliseconds.
const SYNCED_EVENTS: usize = 50_000;

/// The processes of a run. Of each that was saved there are some lines of text, and what the table needs.
#[derive(Debug)]
pub(super) struct Processes {
    /// Where the tapes are.
    folder: PathBuf,
    names: Names,
    /// The number of the program's own process.
    program: u32,
    /// How the program failed, once it has ended.
    failure: Option<String>,
    keep_tape: bool,
    keeper: Keeper,
    taken: BTreeSet<PathBuf>,
    /// The numbers of the processes that had a tape, which may have been empty.
    with_tape: BTreeSet<u32>,
    /// The tapes that stay in the folder although they were looked at.
    kept: BTreeSet<PathBuf>,
    function_names: RunNames,
    owners: RunOwners,
    /// The snapshots, in the order in which the owners have them.
    files: Vec<String>,
    saved: Vec<Recorded>,
    failures: Vec<String>,
    /// The processes that took the name of a tape and could not write it.
    n_unwritten: usize,
    /// The programs that had no right to write a tape.
    n_without_right: u64,
}

/// What another program did.
const CUT: &str = "another program truncated its tape";

/// The programs that one process ran, the first first, with whose tape each is; `None` for what cannot be read.
type Tapes = Vec<(TapeFile, Option<TapeProcess>)>;

impl Processes {
    pub(super) fn new(
        folder: &Path,
        names: Names,
        program: u32,
        keep_tape: bool,
        keeper: Keeper,
    ) -> Processes {
        Processes {
            keeper,
            folder: folder.to_owned(),
            names,
            program,
            failure: None,
            keep_tape,
            taken: BTreeSet::new(),
            with_tape: BTreeSet::new(),
            kept: BTreeSet::new(),
            function_names: RunNames::default(),
            owners: RunOwners::default(),
            files: Vec::new(),
            saved: Vec::new(),
            failures: Vec::new(),
            n_unwritten: 0,
            n_without_right: 0,
        }
    }

    /// Saves what was recorded by the processes that have ended, until `is_over`, except the program's own, whose status is
    /// not known yet. Returns whether there were some.
    pub(super) fn save_ended(&mut self, is_over: impl Fn() -> bool) -> bool {
        let mut has_saved = false;
        for tapes in self.by_process() {
            if is_over() {
                break;
            }
            // A tape that cannot be read yet may be one that begins.
            let has_ended = |tape: &Option<TapeProcess>| tape.is_some_and(|process| process.has_ended());
            let is_program = tapes.iter().any(|(tape, _)| tape.process == self.program);
            if !is_program && tapes.iter().all(|(_, process)| has_ended(process)) {
                self.save(tapes);
                has_saved = true;
            } else {
                has_saved |= self.save_left(&tapes);
            }
        }
        has_saved
    }

    /// Saves what all processes recorded, also those that still run, after the program's end.
    pub(super) fn save_all(&mut self, failure: Option<String>) {
        self.failure = failure;
        self.by_process().into_iter().for_each(|tapes| self.save(tapes));
    }

    fn by_process(&mut self) -> Vec<Tapes> {
        let mut tapes = match tapes_in(&self.folder) {
            Ok(tapes) => tapes,
            Err(error) => {
                let folder = ShownPath(&self.folder);
                let what = match error.kind() {
                    io::ErrorKind::NotFound => format!(
                        "{folder} was removed while the program ran, with all recordings; use --tapes FOLDER \
                         to choose another place"
                    ),
                    _ => format!("cannot read {folder}: {error}"),
                };
                // Each look finds it so.
                if !self.failures.contains(&what) {
                    self.failures.push(what);
                }
                return Vec::new();
            }
        };
        tapes.retain(|tape| !self.kept.contains(&tape.path));
        let with_process = |tape: &TapeFile| (tape.clone(), TapeProcess::of(&tape.path).ok());
        let by_process = tapes.chunk_by(|one, next| one.process == next.process);
        let programs = |tapes: &[TapeFile]| {
            let mut programs: Tapes = tapes.iter().map(with_process).collect();
            // A name that is free again may be that of a later program.
            programs.sort_by_key(|(_, process)| process.map_or(u64::MAX, |process| process.start_us()));
            programs
        };
        by_process.map(programs).collect()
    }

    /// Saves the tapes of one process.
    fn save(&mut self, tapes: Tapes) {
        let (mut n_later, mut later) = (0, Vec::new());
        // The last program of a process has the plain name, so it comes first here.
        for (tape, process) in tapes.into_iter().rev() {
            // It runs another program now.
            let is_left = process.is_some_and(|process| later.iter().any(|later| process.is_same(later)));
            later.extend(process);
            n_later += usize::from(self.save_tape(tape, n_later, is_left));
        }
    }

    /// Saves the tapes of the programs that a process ran before the one that it runs now. Returns whether there were some.
    fn save_left(&mut self, tapes: &[(TapeFile, Option<TapeProcess>)]) -> bool {
        let mut has_saved = false;
        for (at, (tape, process)) in tapes.iter().enumerate() {
            let is_later = |(_, later): &(TapeFile, Option<TapeProcess>)| {
                later.zip(*process).is_some_and(|(later, process)| process.is_same(&later))
            };
            if tapes[at + 1..].iter().any(is_later) {
                self.save_tape(tape.clone(), 1, true);
                has_saved = true;
            }
        }
        has_saved
    }

    /// Saves a tape, which is removed as soon as its snapshot is written. Returns whether there is a snapshot.
    fn save_tape(&mut self, tape: TapeFile, n_later: usize, is_left: bool) -> bool {
        self.with_tape.insert(tape.process);
        let waiting = Waiting::new(format!("reading what process {} recorded", tape.process));
        let saved = self.save_one(&tape, n_later, is_left);
        drop(waiting);
        let mut has_snapshot = false;
        match saved {
            Ok(None) => self.forget(&tape, is_left),
            Ok(Some(recorded)) => {
                has_snapshot = recorded.path.is_some();
                if !self.keep_tape && !recorded.is_running {
                    self.forget(&tape, is_left);
                } else {
                    if !recorded.is_running {
                        // Without checksums it is a tape all the same.
                        let _ = TapeKeeper::seal(&tape.path);
                    }
                    self.kept.insert(tape.path);
                }
                self.saved.push(recorded);
            }
            Err(failure) => {
                let kept = format!("process {}, whose tape is {}", tape.process, ShownPath(&tape.path));
                self.failures.push(failure.of_file(&kept).to_string());
                self.kept.insert(tape.path);
            }
        }
        has_snapshot
    }

    /// Removes a tape that has become a snapshot, or that is empty. One that cannot be removed stays in the folder.
    /// What PyTorch wrote is of the program that the process ran last.
    fn forget(&self, tape: &TapeFile, is_left: bool) {
        let _ = fs::remove_file(&tape.path);
        if !is_left {
            TorchDump::remove(&tape.path, tape.process);
        }
        self.keeper.forget(tape);
    }

    /// Writes the snapshot of one program of a process; `None` if it recorded nothing and never will. `is_left` if the
    /// process ran another program later.
    fn save_one(
        &mut self,
        tape: &TapeFile,
        n_later: usize,
        is_left: bool,
    ) -> Result<Option<Recorded>, Failure> {
        let is_cut = self.keeper.let_go(tape);
        if !is_cut && is_unwritten(tape) {
            self.n_unwritten += 1;
            return Ok(None);
        }
        let failure = self.failure.clone().filter(|_| tape.process == self.program && !is_left);
        let read = match self.names.are_of_packed_tapes() && !is_cut {
            true => Recovered::read_and_pack(&tape.path, &self.function_names, is_left, failure.as_deref()),
            false => Recovered::read_of_run(&tape.path, &self.function_names).map(|read| (read, None)),
        };
        let (recovered, packed) = match read {
            Err(_) if is_cut => {
                self.failures.push(format!("process {}: {CUT}, and nothing of it can be read", tape.process));
                return Ok(None);
            }
            read => read?,
        };
        self.n_without_right = self.n_without_right.saturating_add(recovered.n_unrecorded());
        let n_events = recovered.n_events();
        let is_running = !is_left && recovered.is_running() && !recovered.is_closed();
        if n_events == 0 && !is_running && !is_cut && recovered.could_grow() {
            return Ok(None);
        }
        let mut recorded = Recorded {
            tape: tape.clone(),
            path: None,
            n_events,
            n_dropped: 0,
            peak: Peak::default(),
            problems: recovered.problems().to_vec(),
            is_running,
            is_left,
            is_helper: false,
        };
        if is_cut {
            recorded.problems.push(format!("{CUT}, and events are missing"));
        }
        if n_events > 0 {
            let failure = failure.as_deref();
            let path = self.write(&mut recorded, (&recovered, packed), n_later, failure)?;
            recorded.path = Some(path);
        }
        Ok(Some(recorded))
    }

    /// Writes what a program recorded: the packed tape of a heap alone, or a snapshot, which other programs than memreel open.
    fn write(
        &mut self,
        recorded: &mut Recorded,
        (recovered, packed): (&Recovered, Option<PackedTape>),
        n_later: usize,
        failure: Option<&str>,
    ) -> Result<PathBuf, Failure> {
        let (tape, n_events) = (recorded.tape.clone(), recorded.n_events);
        // What PyTorch wrote is of the program that the process ran last.
        let dump = match recorded.is_left {
            true => TorchDump::default(),
            false => TorchDump::beside(&tape.path, tape.process),
        };
        recorded.problems.extend(dump.note);
        let packed = packed.filter(|_| dump.pickle.is_none() && recovered.is_of_heap());
        let form = if packed.is_some() { Form::PackedTape } else { Form::Pickle };
        let owned = packed.as_ref().and_then(|_| owners_snapshot(recovered, &self.owners));
        let is_owned = owned.is_some();
        let mut snapshot =
            owned.unwrap_or_else(|| with_torch(recovered, dump.pickle, &mut recorded.problems));
        failure.into_iter().for_each(|failure| snapshot.set_program_failure(failure));
        let path = self.names.of(&tape, n_later, self.program, form, &mut self.taken);
        let is_synced = n_events >= SYNCED_EVENTS;
        match packed {
            Some(packed) => packed.save(&path, is_synced)?,
            None if is_synced => pickle::save(&snapshot, &path)?,
            None => pickle::save_unsynced(&snapshot, &path)?,
        }
        if is_owned {
            // Nothing that a heap requests is refused by a device.
            recorded.peak = Peak { bytes: self.owners.add_heap(&snapshot), of_last: None };
        } else {
            let (peak, refusals) = table::peak_and_refusals(&snapshot, &path);
            recorded.problems.extend(refusals);
            recorded.peak = peak;
            self.owners.add(&snapshot);
        }
        recorded.n_dropped = n_dropped(&snapshot, n_events);
        self.files.push(path.display().to_string());
        Ok(path)
    }

    /// Prints the lines and the tables, and writes the file of the run.
    pub(super) fn print(
        &mut self,
        options: &Options,
        mut bystanders: Vec<Bystander>,
        out: &mut Page,
    ) -> io::Result<()> {
        self.saved.sort_by(|one, other| one.tape.cmp(&other.tape));
        let folder = self.of_run("helpers");
        let helpers = helpers::fold(&mut self.saved, &mut self.files, &folder, self.program);
        let mut told = self.saved.iter().filter(|recorded| options.json || !recorded.is_helper);
        told.try_for_each(|recorded| print(options, recorded, out))?;
        helpers.iter().filter(|_| !options.json).try_for_each(|line| writeln!(out, "memreel: {line}"))?;
        self.failures.iter().try_for_each(|failure| writeln!(out, "memreel: {failure}"))?;
        match self.keeper.n_unrecorded() {
            0 => {}
            n => {
                let processes = if n == 1 { "1 process".to_owned() } else { format!("{n} processes") };
                writeln!(
                    out,
                    "memreel: {processes} ran unrecorded, because {MOST} other recordings were waiting to be \
                     saved"
                )?;
            }
        }
        if self.n_unwritten > 0 {
            let n = self.n_unwritten;
            let tapes = if n == 1 { "1 process".into() } else { format!("{n} processes") };
            writeln!(
                out,
                "memreel: {tapes} wrote no tape, because of an early end, a full disk or a file size limit \
                 (ulimit -f); use --tapes FOLDER to choose another disk"
            )?;
        }
        match self.n_without_right {
            0 => {}
            n => {
                let programs = count(n, "program");
                writeln!(
                    out,
                    "memreel: {programs} ran unrecorded, as another user without the right to write a tape"
                )?;
            }
        }
        // It loaded the libraries after the last look at it.
        bystanders.retain(|of| of.why != Why::LeftOut || !self.with_tape.contains(&of.process));
        let run = self.run(options, &bystanders);
        if self.saved.is_empty() && self.failures.is_empty() && self.n_unwritten == 0 && !options.json {
            nothing(options, out)?;
        }
        let path = self.of_run(ENDING);
        run::print(&run, &bystanders, self.program, &path, options.json, out)?;
        table::print(&self.owners, &self.files, options.json, out)?;
        run::write(&run, &path, options.json, out)?;
        match self.largest() {
            Some(path) if !options.json => {
                writeln!(out, "\nnext: memreel {}", shell_word(&shown(path)))
            }
            _ => Ok(()),
        }
    }

    /// Returns the snapshot of the process with the highest peak.
    pub(super) fn largest(&self) -> Option<&Path> {
        let saved = self.saved.iter().filter(|recorded| !recorded.is_helper);
        let with_path = saved.filter_map(|recorded| Some((recorded.peak.bytes, recorded.path.as_deref()?)));
        with_path.max_by_key(|(bytes, _)| *bytes).map(|(_, path)| path)
    }

    /// Returns a path of the run, by its ending.
    fn of_run(&self, ending: &str) -> PathBuf {
        let is_own = |recorded: &&Recorded| recorded.tape.process == self.program;
        let rank = self.saved.iter().find(is_own).and_then(|own| own.tape.rank.clone());
        let rank = rank.or_else(|| integrate::rank().map(|rank| rank.to_string()));
        self.names.of_run(&self.program.to_string(), rank.as_deref().unwrap_or("0"), ending)
    }

    /// Returns what the file of the run is to have.
    fn run(&self, options: &Options, bystanders: &[Bystander]) -> RunFile {
        let words = options.program.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let mut run = RunFile::new(words);
        let process = |recorded: &Recorded| {
            let path = recorded.path.as_ref()?;
            let file = path.strip_prefix(self.names.folder()).unwrap_or(path);
            Some(RunProcess {
                process: recorded.tape.process,
                rank: recorded.tape.rank.clone(),
                file: file.display().to_string(),
                peak_bytes: recorded.peak.bytes,
                is_helper: recorded.is_helper,
            })
        };
        run.processes = self.saved.iter().filter_map(process).collect();
        run.not_recorded = grouped(bystanders);
        let n_seen = bystanders.iter().filter(|of| of.why == Why::OtherUser).count() as u64;
        let others = [
            (self.keeper.n_unrecorded(), "because many other recordings were waiting to be saved"),
            (self.n_unwritten as u64, "because they wrote no tape"),
            (
                self.n_without_right.saturating_sub(n_seen),
                "as another user without the right to write a tape",
            ),
        ];
        let other = |(n_processes, why): (u64, &str)| NotRecorded {
            name: None,
            n_processes,
            why: why.into(),
            is_minor: false,
        };
        run.not_recorded.extend(others.into_iter().filter(|(n, _)| *n > 0).map(other));
        run.not_recorded.extend(self.saved.iter().filter(|recorded| recorded.is_running).map(unended));
        run.failures.clone_from(&self.failures);
        run.failed_calls = told::failed_calls(&self.folder);
        run
    }
}

/// Returns what the file of the run says of a process that outlives it: a limit was not checked on what it does later.
fn unended(recorded: &Recorded) -> NotRecorded {
    let name = fs::read_to_string(format!("/proc/{}/comm", recorded.tape.process));
    NotRecorded {
        name: name.ok().map(|name| name.trim_end().to_owned()),
        n_processes: 1,
        why: "it was still running when the run ended, so only its beginning is recorded".to_owned(),
        is_minor: false,
    }
}

/// Returns whether a process took the name of the tape, and ended before it wrote anything.
fn is_unwritten(tape: &TapeFile) -> bool {
    let is_gone = || !Path::new("/proc").join(tape.process.to_string()).exists();
    fs::metadata(&tape.path).is_ok_and(|found| found.is_file() && found.len() == 0) && is_gone()
}

/// Returns the snapshot of a tape, with PyTorch's blocks if there are some. What went wrong is added to the problems.
fn with_torch(recovered: &Recovered, pickle: Option<PathBuf>, problems: &mut Vec<String>) -> Snapshot {
    let Some(pickle) = pickle else { return recovered.snapshot() };
    match torch_dump::merged(recovered.snapshot(), &pickle, &Opener::Files) {
        Ok((merged, when)) => {
            problems.extend((when.contains("before the last event")).then_some(when));
            merged
        }
        Err(failure) => {
            problems.push(format!("PyTorch's blocks are missing: {failure}"));
            recovered.snapshot()
        }
    }
}

/// Returns how many events the ring dropped. A child of `fork` lacks those of its parent, and has a ring that is not full.
fn n_dropped(snapshot: &Snapshot, n_events: usize) -> u64 {
    let setting = |key| snapshot.allocator_settings()?.get(key)?.as_unsigned();
    let most = setting("trace_alloc_max_entries").unwrap_or(u64::MAX);
    let is_full = n_events as u64 >= most - most / 10;
    setting("trace_alloc_lost_entries").filter(|_| is_full).unwrap_or(0)
}

fn print(options: &Options, process: &Recorded, out: &mut Page) -> io::Result<()> {
    let Recorded { tape, path, n_events, n_dropped, peak, problems, is_running, .. } = process;
    let (is_kept, tape_path) = (options.keep_tape || *is_running, ShownPath(&tape.path));
    if options.json {
        let line = json!({
            "process": tape.process, "rank": tape.rank,
            "file": path.as_ref().map(|path| path.display().to_string()), "events": n_events,
            "peak_bytes": peak.bytes, "peak_is_of_run": peak.of_last.is_none(), "is_running": is_running, "problems": problems,
            "tape": is_kept.then(|| tape_path.to_string()),
        });
        return writeln!(out, "{line}");
    }
    let rank = tape.rank.as_ref().map_or_else(String::new, |rank| format!(", rank {rank}"));
    let running = if *is_running { ", still running" } else { "" };
    let what = match path {
        Some(path) => {
            let dropped = match n_dropped {
                0 => String::new(),
                n => format!(" (the {n} oldest were dropped; --ring COUNT keeps more)"),
            };
            let of_last =
                peak.of_last.map_or_else(String::new, |n| format!(" of the last {}", count(n, "event")));
            let (events, bytes) = (count(*n_events, "event"), Bytes(peak.bytes));
            format!("{events}{dropped}, peak {bytes}{of_last}, {}", shown(path))
        }
        None if *is_running => "no events yet".to_owned(),
        None => "no events".to_owned(),
    };
    writeln!(out, "memreel: process {}{rank}{running}: {what}", tape.process)?;
    problems.iter().try_for_each(|problem| writeln!(out, "memreel: process {}: {problem}", tape.process))?;
    if is_kept {
        writeln!(out, "memreel: the tape of process {} is {tape_path}", tape.process)?;
    }
    Ok(())
}

/// Prints that no process recorded anything.
fn nothing(options: &Options, out: &mut Page) -> io::Result<()> {
    let hint = match options.heap {
        true => "",
        false if options.program[1..].iter().any(|word| word == "--heap") => {
            "; put --heap before the program's name: after it, it is an option of the program"
        }
        false => "; use --heap to record its heap",
    };
    let what = if options.heap { "allocated nothing to record" } else { "allocated no GPU memory" };
    writeln!(out, "memreel: {} {what}{hint}", short_name(&options.program[0]))
}

fn shown(path: &Path) -> String {
    path.strip_prefix(".").unwrap_or(path).display().to_string()
}
