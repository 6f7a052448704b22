//! Reads what the preloaded library reports about programs that start without it and calls that failed, from a file in
//! the folder of the run: a line for each, with words separated by tabs. Its kind, the process, what its environment
//! preloads, and the first words of the command.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
    io::Read,
    path::Path,
};

use memreel_snapshot::place::open_plain;

use super::bystander::{Bystander, Why, name_of};
use crate::{input::run_file::FailedCall, run::preloadable, text::clean};

/// The name of the file (`crates/hooks/cuda/src/told.rs`).
pub(super) const NAME: &str = "unrecorded";

/// A line of the file for each driver function that failed in a process, and how.
pub(super) fn failed_calls(folder: &Path) -> Vec<FailedCall> {
    let text = text(folder);
    let mut all = BTreeMap::<(u32, &str, i32), u32>::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        let ["call", process, _, function, status, n] = words[..] else { continue };
        let (Ok(process), Ok(status), Ok(n)) = (process.parse(), status.parse(), n.parse::<u32>()) else {
            continue;
        };
        let most = all.entry((process, function, status)).or_default();
        *most = n.max(*most);
    }
    let call = |((process, function, status), n_times): ((u32, &str, i32), u32)| FailedCall {
        process,
        function: function.to_owned(),
        status,
        n_times,
    };
    all.into_iter().map(call).collect()
}

/// The names of statuses that say more than their number (`cuda.h`).
const STATUSES: [(i32, &str); 11] = [
    (1, "CUDA_ERROR_INVALID_VALUE"),
    (3, "CUDA_ERROR_NOT_INITIALIZED"),
    (100, "CUDA_ERROR_NO_DEVICE"),
    (101, "CUDA_ERROR_INVALID_DEVICE"),
    (201, "CUDA_ERROR_INVALID_CONTEXT"),
    (400, "CUDA_ERROR_INVALID_HANDLE"),
    (700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
    (719, "CUDA_ERROR_LAUNCH_FAILED"),
    (800, "CUDA_ERROR_NOT_PERMITTED"),
    (801, "CUDA_ERROR_NOT_SUPPORTED"),
    (999, "CUDA_ERROR_UNKNOWN"),
];

/// Functions that free memory: they reject what was already freed.
const GIVING_BACK: [&str; 4] = ["cuMemRelease", "cuMemFree", "cuMemUnmap", "cuMemAddressFree"];

/// Up to this number each failure is reported (`crates/hooks/cuda/src/failed.rs`).
const EACH: u32 = 16;

impl Display for FailedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FailedCall { process, function, status, n_times } = self;
        let times = match *n_times {
            1 => String::new(),
            n if n < EACH => format!(" {n} times"),
            n => format!(" {n} times or more"),
        };
        let named = STATUSES.iter().find(|(number, _)| number == status);
        let named = named.map_or_else(|| format!("status {status}"), |(_, name)| (*name).to_owned());
        let is_back = *status == 1 && GIVING_BACK.iter().any(|name| function.starts_with(name));
        let why = if is_back { ": what it names was already freed, or never existed" } else { "" };
        write!(f, "process {process}: {} failed{times} ({named}){why}", clean(function))
    }
}

/// The most bytes that are read: a little more than the library writes.
const MOST_BYTES: u64 = 8 << 20;

fn text(folder: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = open_plain(folder.join(NAME)) {
        // What was read counts, even before an error.
        let _ = file.take(MOST_BYTES).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns what was reported of processes: of each the last program that started without the libraries, and the last with another
/// allocator in front.
pub(super) fn bystanders(folder: &Path) -> Vec<Bystander> {
    let text = text(folder);
    let mut all: Vec<Option<Bystander>> = Vec::new();
    // The last line of each process, by whether it is a start.
    let mut last = BTreeMap::<(u32, bool), usize>::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        let [kind, process, preload, command @ ..] = &words[..] else { continue };
        let is_start = match *kind {
            "cleared" | "unloaded" | "program" | "failed" => true,
            "behind" => false,
            _ => continue,
        };
        let Ok(process) = process.parse() else { continue };
        // It runs another program, or none after all.
        if process != 0
            && let Some(before) = last.remove(&(process, is_start))
        {
            all[before] = None;
        }
        let why = match *kind {
            "cleared" => Why::of_environment(Some(preload), false),
            "unloaded" => Why::of_environment(Some(preload), true),
            "behind" => Why::Behind,
            "program" => match command.first().and_then(|path| preloadable::why_not(path.as_ref())) {
                Some(unrecorded) => Why::Program(unrecorded.why),
                None => continue,
            },
            _ => continue,
        };
        let name = name_of(command.iter().map(|word| word.as_bytes()));
        last.insert((process, is_start), all.len());
        all.push(Some(Bystander { process, name, why }));
    }
    all.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_line_is_a_process_and_a_start_that_failed_is_none() {
        let folder = tempfile::tempdir().unwrap();
        assert!(bystanders(folder.path()).is_empty());
        let text = "cleared\t7\t\t/usr/bin/python3\t/srv/worker.py\t-x\n\
                    unloaded\t8\t/lib/libjemalloc.so\t/bin/b\n\
                    cleared\t9\t\t/bin/gone\nfailed\t9\t\nbroken\n\
                    program\t10\t\t/proc/self/exe\n";
        fs::write(folder.path().join(NAME), text).unwrap();
        let found = bystanders(folder.path());
        let named: Vec<_> = found.iter().map(|of| (of.process, &*of.name, of.why.clone())).collect();
        assert_eq!(
            named,
            [(7, "python3 worker.py", Why::Cleared), (8, "b", Why::Replaced("libjemalloc.so".into())),]
        );
    }

    #[test]
    fn a_start_that_failed_takes_back_no_allocator_in_front() {
        let folder = tempfile::tempdir().unwrap();
        let text = "behind\t7\t\t/bin/a\ncleared\t7\t\t/bin/gone\nfailed\t7\t\t/bin/gone\n\
                    behind\t8\t\t/bin/a\ncleared\t8\t\t/bin/b\n";
        fs::write(folder.path().join(NAME), text).unwrap();
        let found = bystanders(folder.path());
        let named: Vec<_> = found.iter().map(|of| (of.process, &*of.name, of.why.clone())).collect();
        assert_eq!(named, [(7, "a", Why::Behind), (8, "a", Why::Behind), (8, "b", Why::Cleared)]);
    }
}
