//! The process that records on a tape: whether it still runs.
#![forbid(unsafe_code)]

use std::{fs, os::unix::fs::MetadataExt, path::PathBuf};

/// Returns when this process began, in ticks of the kernel since the machine did, whose clock is that of the first namespace of
/// times; `None` without `/proc`.
pub(crate) fn own_start() -> Option<u64> {
    // In a new namespace without a `/proc` of its own, the number of this process is there another process's.
    start_of_process(fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()?)
}

/// Returns when a process began; `None` if it does not exist.
fn start_of_process(process: u32) -> Option<u64> {
    let folder = format!("/proc/{process}");
    // What the kernel has of the first thread: QEMU's user mode answers for the process itself, with when its program began.
    let stat = fs::read_to_string(format!("{folder}/task/{process}/stat")).ok()?;
    // The name of the program is in brackets and may have spaces. The state is the first word after it, the beginning
    // the twentieth.
    let mut words = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let has_ended = match words.next()? {
        "X" => true,
        // Nothing has asked for its exit status, or its first thread has ended before others.
        "Z" => fs::read_dir(format!("{folder}/task")).map_or(0, Iterator::count) <= 1,
        _ => false,
    };
    let began: u64 = words.nth(18).filter(|_| !has_ended)?.parse().ok()?;
    began.checked_add_signed(-clock_offset_ticks())
}

/// Returns by how much the machine's age is another in this process's namespace of times: the kernel adds it to each beginning
/// that this process reads. Ticks are hundredths of a second in `/proc`, on every machine.
fn clock_offset_ticks() -> i64 {
    let offset = || {
        let offsets = fs::read_to_string("/proc/self/timens_offsets").ok()?;
        let mut words =
            offsets.lines().find_map(|line| line.strip_prefix("boottime"))?.split_ascii_whitespace();
        let (seconds, nanoseconds): (i64, i64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(seconds * 100 + nanoseconds / 10_000_000)
    };
    offset().unwrap_or(0)
}

/// Whether two beginnings are one: with an offset, the kernel rounds their sum.
fn is_same(left: Option<u64>, right: u64) -> bool {
    left.is_some_and(|left| left.abs_diff(right) <= 1)
}

/// Returns the namespace of this process's number; 0 if it cannot be learnt.
pub(super) fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
}

/// Returns whether a process runs; see [`folder_of`].
pub(super) fn is_running(process: u32, began: u64, namespace: u64) -> bool {
    folder_of(process, began, namespace).is_some()
}

/// Returns the folder in `/proc` of the process that began at this time, and has this number in a namespace; `None` if it
/// does not run. In a namespace around its own, it has another number; from a namespace that does not contain it, no process
/// of it can be seen.
pub(super) fn folder_of(process: u32, began: u64, namespace: u64) -> Option<PathBuf> {
    if began == 0 {
        return None;
    }
    let folder = |number: u32| PathBuf::from(format!("/proc/{number}"));
    if namespace == 0 || namespace == pid_namespace() {
        return is_same(start_of_process(process), began).then(|| folder(process));
    }
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_it = |number: &u32| {
        number_in_own_namespace(*number) == Some(process) && is_same(start_of_process(*number), began)
    };
    numbers.find(is_it).map(folder)
}

/// Returns the number that a process has in its own namespace.
fn number_in_own_namespace(process: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_ascii_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_runs_in_its_own_namespace_and_in_one_around_it() {
        let (own, namespace) = (std::process::id(), pid_namespace());
        let began = own_start().unwrap();
        assert_eq!(start_of_process(own), Some(began));
        let inner = number_in_own_namespace(own).unwrap();
        assert!(is_running(own, began, namespace) && is_running(own, began, 0));
        assert!(is_running(inner, began, namespace + 1), "by its number there");
        assert!(!is_running(inner, began + 2, namespace + 1), "another process");
        assert!(!is_running(own, 0, namespace));
    }
}
