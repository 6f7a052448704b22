//! Finds the process that records on a tape, if it is still running.
#![forbid(unsafe_code)]

use std::{fs, os::unix::fs::MetadataExt, path::PathBuf};

/// Returns when this process started, in kernel ticks since the machine started, by the clock of the initial time
/// namespace; `None` without `/proc`.
pub(crate) fn own_start() -> Option<u64> {
    // In a new namespace that shares `/proc`, this process's PID there belongs to another process.
    start_of_process(fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()?)
}

/// Returns when a process started; `None` if it does not exist.
fn start_of_process(process: u32) -> Option<u64> {
    let folder = format!("/proc/{process}");
    // The kernel's entry for the first thread: QEMU's user mode answers for the process itself, with the start of its
    // program.
    let stat = fs::read_to_string(format!("{folder}/task/{process}/stat")).ok()?;
    // The name of the program is in brackets and may contain spaces. The state is the first word after it, the start
    // time the twentieth.
    let mut words = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let has_ended = match words.next()? {
        "X" => true,
        // The exit status was not collected yet, or the first thread has ended before others.
        "Z" => fs::read_dir(format!("{folder}/task")).map_or(0, Iterator::count) <= 1,
        _ => false,
    };
    let began: u64 = words.nth(18).filter(|_| !has_ended)?.parse().ok()?;
    began.checked_add_signed(-clock_offset_ticks())
}

/// Returns the offset of the machine's age in this process's time namespace: the kernel adds it to each start time that
/// this process reads. Ticks are hundredths of a second in `/proc`, on every machine.
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

/// Returns whether two start times are the same: with an offset, the kernel rounds their sum.
fn is_same(left: Option<u64>, right: u64) -> bool {
    left.is_some_and(|left| left.abs_diff(right) <= 1)
}

/// Returns this process's PID namespace; 0 if it cannot be determined.
pub(super) fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
}

/// Returns whether a process is running; see [`folder_of`].
pub(super) fn is_running(process: u32, began: u64, namespace: u64) -> bool {
    folder_of(process, began, namespace).is_some()
}

/// Returns the folder in `/proc` of the process that started at this time and has this PID in a namespace; `None` if it
/// is not running. In an enclosing namespace, its PID differs; from a namespace that does not contain it, it is not
/// visible.
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

/// Returns the PID of a process in its own namespace.
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
