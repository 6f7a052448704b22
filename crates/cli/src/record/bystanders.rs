//! Finds the processes of a run without memreel's libraries, while the program runs and once at its end.
//!
//! The processes are those below the program, by their parents, and those below processes that were seen there before. What
//! lives for less than two looks is not seen: the preloaded library reports what is started by functions that it wraps (`told.rs`).
//! What is started otherwise (`execle`, `system`, system calls of the program's own) and ends sooner is in neither.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::bystander::{Bystander, Why, name_of};
use crate::run::preloadable;

/// The time between two looks, at least.
const PAUSE: Duration = Duration::from_millis(200);

/// The pause, by the time that a look takes: looks take at most a twentieth of a processor.
const PAUSE_BY_LOOK: u32 = 20;

/// How long a program takes to load its libraries, at most.
const LOADING: Duration = Duration::from_millis(50);

/// The file name of memreel's library in a process's list of mappings.
const LIBRARY: &[u8] = b"/libmemreel_preload.so";

/// The thread that searches; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Bystanders {
    /// Closed to end the thread.
    end: Sender<()>,
    thread: Option<JoinHandle<Vec<Bystander>>>,
}

impl Bystanders {
    /// Starts to search. Without the thread nothing is found.
    pub(super) fn start(program: u32) -> Bystanders {
        let (end, is_over) = mpsc::channel();
        let work = move || {
            let mut looks = Looks::of(program);
            let mut pause = PAUSE;
            while is_over.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let begun = Instant::now();
                let is_unsure = looks.look();
                pause = if is_unsure { LOADING } else { PAUSE.max(begun.elapsed() * PAUSE_BY_LOOK) };
            }
            // What is new may be loading.
            if looks.look() {
                thread::sleep(LOADING);
                looks.look();
            }
            looks.end()
        };
        let thread = thread::Builder::new().name("bystanders".into()).spawn(work).ok();
        Bystanders { end, thread }
    }

    /// Looks once more, and returns what was found.
    pub(super) fn finish(self) -> Vec<Bystander> {
        drop(self.end);
        self.thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

/// The processes of a run that were seen.
#[derive(Debug)]
struct Looks {
    /// The live processes of the run, by PID.
    known: BTreeMap<u32, Known>,
    found: Vec<Bystander>,
}

/// A process of the run.
#[derive(Clone, Debug, Default)]
struct Known {
    stat: Stat,
    is_settled: bool,
    was_without: bool,
    /// The result if it ends in this state: a process that is stopped before its loader ran, for example by a debugger,
    /// may still load the libraries.
    waiting: Option<Bystander>,
}

/// The kernel's one-line entry for a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Stat {
    parent: u32,
    /// Its start time.
    start: u64,
    /// Where its arguments are: another program has another place.
    program: u64,
}

impl Looks {
    fn of(program: u32) -> Looks {
        let known = stat(program).map(|stat| (program, Known { stat, ..Known::default() }));
        Looks { known: known.into_iter().collect(), found: Vec::new() }
    }

    /// Examines all processes. Returns whether some are newly without the libraries.
    fn look(&mut self) -> bool {
        let mut before = std::mem::take(&mut self.known);
        for (process, stat) in of_run(&running(), &before) {
            let is_same = before.get(&process).is_some_and(|known| known.stat == stat);
            let known = if is_same { before.remove(&process) } else { None };
            let mut known = known.unwrap_or(Known { stat, ..Known::default() });
            if !known.is_settled {
                self.settle(process, &mut known);
            }
            self.known.insert(process, known);
        }
        // These have ended, or run another program.
        self.found.extend(before.into_values().filter_map(|known| known.waiting));
        self.known.values().any(|known| !known.is_settled && known.was_without && known.waiting.is_none())
    }

    /// Returns what was found, with what still runs.
    fn end(self) -> Vec<Bystander> {
        let Looks { known, mut found } = self;
        found.extend(known.into_values().filter_map(|known| known.waiting));
        found
    }

    /// Determines whether the libraries are in a process. One without them may still load them, so the second look
    /// counts.
    fn settle(&mut self, process: u32, known: &mut Known) {
        let Some(has_library) = has_library(process) else { return };
        if !has_library && !known.was_without {
            known.was_without = true;
            return;
        }
        if !has_library && known.waiting.is_some() {
            return;
        }
        known.is_settled = true;
        known.waiting = None;
        let why = if has_library { None } else { why(process) };
        // Another process may have the number by now.
        let Some(why) = why.filter(|_| stat(process) == Some(known.stat)) else { return };
        let found = Bystander { process, name: name(process), why };
        match found.why {
            Why::LeftOut => (known.is_settled, known.waiting) = (false, Some(found)),
            _ => self.found.push(found),
        }
    }
}

/// Returns the processes of a run among all that run.
fn of_run(running: &BTreeMap<u32, Stat>, before: &BTreeMap<u32, Known>) -> Vec<(u32, Stat)> {
    let mut children = BTreeMap::<u32, Vec<u32>>::new();
    running.iter().for_each(|(process, stat)| children.entry(stat.parent).or_default().push(*process));
    let is_same = |process: &&u32| {
        running.get(process).map(|of| of.start) == before.get(process).map(|of| of.stat.start)
    };
    let mut next: Vec<u32> = before.keys().filter(is_same).copied().collect();
    let mut all = BTreeMap::new();
    while let Some(process) = next.pop() {
        if let Some(stat) = running.get(&process)
            && all.insert(process, *stat).is_none()
        {
            next.extend(children.get(&process).into_iter().flatten());
        }
    }
    all.into_iter().collect()
}

fn running() -> BTreeMap<u32, Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|process| Some((process, stat(process)?))).collect()
}

fn stat(process: u32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{process}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The name of the program is in brackets and may have spaces; the state is the first word after it.
    let words: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
    Some(Stat {
        parent: u32::try_from(number(1)?).ok()?,
        start: number(19)?,
        program: number(45).unwrap_or(0),
    })
}

/// Returns whether a process has memreel's library; `None` if that is not visible, and for one that has ended.
fn has_library(process: u32) -> Option<bool> {
    match fs::read(format!("/proc/{process}/maps")) {
        Ok(maps) if maps.is_empty() => None,
        Ok(maps) => Some(maps.windows(LIBRARY.len()).any(|part| part == LIBRARY)),
        // One of this user may hide what it has; another user's has no library of this one's.
        Err(_) => is_of_other_user(process).then_some(false),
    }
}

fn is_of_other_user(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    // The real one, and the one in force.
    let in_force: Option<u32> = users.split_ascii_whitespace().nth(1).and_then(|user| user.parse().ok());
    in_force.is_some_and(|user| user != rustix::process::geteuid().as_raw())
}

/// Returns why a process has no library; `None` if it has ended.
fn why(process: u32) -> Option<Why> {
    let folder = format!("/proc/{process}");
    if has_other_root(process) {
        return Some(Why::OtherRoot);
    }
    let Ok(environment) = fs::read(format!("{folder}/environ")) else {
        return is_of_other_user(process).then_some(Why::OtherUser);
    };
    let program = fs::read_link(format!("{folder}/exe")).ok()?;
    if let Some(unrecorded) = preloadable::why_not(program.as_os_str()) {
        return Some(Why::Program(unrecorded.why));
    }
    let of = |name: &[u8]| environment.split(|byte| *byte == 0).find_map(|word| word.strip_prefix(name));
    let preload = of(b"LD_PRELOAD=").map(String::from_utf8_lossy);
    if preload.as_ref().is_some_and(|preload| preload.contains("libmemreel_preload")) {
        return Some(if is_of_other_user(process) { Why::OtherUser } else { Why::LeftOut });
    }
    Some(Why::of_environment(preload.as_deref(), of(b"MEMREEL_RECORD=").is_some()))
}

/// Returns whether a process has another root or other mounts, in which memreel's libraries may be missing.
fn has_other_root(process: u32) -> bool {
    let of = |process: &str| {
        let root = fs::metadata(Path::new("/proc").join(process).join("root")).ok()?;
        let mounts = fs::read_link(Path::new("/proc").join(process).join("ns/mnt")).ok()?;
        Some((root.dev(), root.ino(), mounts))
    };
    // What may not be looked at shows nothing.
    of(&process.to_string()).is_some_and(|its| Some(its) != of("self"))
}

fn name(process: u32) -> String {
    let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let name = name_of(words.split(|byte| *byte == 0).filter(|word| !word.is_empty()));
    if !name.is_empty() {
        return name;
    }
    fs::read_to_string(format!("/proc/{process}/comm"))
        .map_or_else(|_| "a process".into(), |name| name.trim().into())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_that_lives_is_found_at_the_second_look_and_counts_once() {
        let mut child = Command::new("sleep").arg("60").env_clear().stdin(Stdio::null()).spawn().unwrap();
        let mut looks = Looks::of(child.id());
        let mut n_looks = 0;
        while looks.found.is_empty() && n_looks < 100 {
            looks.look();
            n_looks += 1;
            thread::sleep(Duration::from_millis(5));
        }
        looks.look();
        let found = std::mem::take(&mut looks.found);
        child.kill().unwrap();
        child.wait().unwrap();
        looks.look();
        assert!(n_looks >= 2 && looks.known.is_empty(), "{n_looks}");
        let process = child.id();
        assert_eq!(found, [Bystander { process, name: "sleep".into(), why: Why::Cleared }]);
    }

    #[test]
    fn one_that_may_still_load_the_libraries_counts_once_it_has_ended() {
        let mut sleep = Command::new("sleep");
        sleep.arg("60").env_clear().env("LD_PRELOAD", "/no/libmemreel_preload.so").stderr(Stdio::null());
        let mut child = sleep.spawn().unwrap();
        let process = child.id();
        let mut looks = Looks::of(process);
        let is_waiting = |looks: &Looks| looks.known[&process].waiting.is_some();
        for _ in 0..100 {
            looks.look();
            if is_waiting(&looks) {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let is_unsure = looks.look();
        let (was_waiting, is_found) = (is_waiting(&looks), !looks.found.is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
        looks.look();
        assert!(was_waiting && !is_found && !is_unsure && looks.known.is_empty());
        assert_eq!(looks.end(), [Bystander { process, name: "sleep".into(), why: Why::LeftOut }]);
    }

    #[test]
    fn what_a_known_process_starts_is_of_the_run_though_its_parent_ended() {
        let stat = |parent, start| Stat { parent, start, program: 0 };
        let known = |stat| Known { stat, ..Known::default() };
        let before =
            BTreeMap::from([(10, known(stat(1, 5))), (11, known(stat(10, 6))), (12, known(stat(10, 7)))]);
        // 10 has ended, 11 is another process by now, and 12 has started 13.
        let running = BTreeMap::from([
            (1, stat(0, 0)),
            (11, stat(1, 9)),
            (12, stat(1, 7)),
            (13, stat(12, 8)),
            (14, stat(11, 10)),
        ]);
        let of_run: Vec<u32> = of_run(&running, &before).into_iter().map(|(process, _)| process).collect();
        assert_eq!(of_run, [12, 13]);
    }
}
