//! The end of `memreel record` by a signal while it saves: the tapes stay, and a line names them.

#![forbid(unsafe_code)]

use std::{fs, path::Path, process, sync::mpsc, thread, time::Duration};

use super::{folder::tapes_in, say::say};
use crate::text::{count, shell_word};

/// How long the line may take: standard error may be a pipe that is full.
const PATIENCE: Duration = Duration::from_millis(300);

/// Ends this process.
pub(super) fn end(signal: i32, folder: &Path) -> ! {
    let (text, (done, is_done)) = (line(folder), mpsc::channel());
    // Another thread may have the lock of standard error, and wait for its reader.
    let written = thread::Builder::new().spawn(move || {
        say(&text);
        let _ = done.send(());
    });
    remove_unfinished();
    if written.is_ok() {
        let _ = is_done.recv_timeout(PATIENCE);
    }
    process::exit(128 + signal)
}

fn line(folder: &Path) -> String {
    let n_tapes = tapes_in(folder).map_or(0, |tapes| tapes.len());
    if n_tapes == 0 {
        return "interrupted; every snapshot is saved".to_owned();
    }
    format!(
        "interrupted while snapshots were saved; `memreel recover {}/*.tape -o .` makes those of the {} that {} left",
        shell_word(&folder.display().to_string()),
        count(n_tapes, "tape"),
        if n_tapes == 1 { "is" } else { "are" }
    )
}

/// Removes the snapshots that are being written: those of the open files that have a temporary name.
fn remove_unfinished() {
    for entry in fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        let Ok(path) = fs::read_link(entry.path()) else { continue };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(".memreel-") && name.ends_with(".tmp") {
            let _ = fs::remove_file(path);
        }
    }
}
