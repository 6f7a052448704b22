//! Handles the early end of the saving process, by a signal or a failure: the tapes remain, and a line names them.

#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    process,
    sync::{Arc, OnceLock, mpsc},
    thread,
    time::{Duration, Instant},
};

use memreel_snapshot::place::Folder;
use signal_hook::iterator::exfiltrator::origin::Origin;

use super::{child, say::say};
use crate::{
    run::tape_file::tapes_in,
    text::{count, shell_word},
};

/// How long the line may take: standard error may be a pipe that is full.
const PATIENCE: Duration = Duration::from_millis(300);

/// Makes the first signal after the program's end that ends programs end this process.
pub(super) fn heed(folder: PathBuf, ended: Arc<OnceLock<Instant>>) {
    let Ok(mut signals) = child::signals() else { return };
    let _ = thread::Builder::new().name("signals".into()).spawn(move || {
        for Origin { signal, .. } in signals.forever() {
            if ended.get().is_some_and(|ended| child::ends_saving(signal, ended.elapsed())) {
                end(signal, &folder);
            }
        }
    });
}

/// Ends this process.
fn end(signal: i32, folder: &Path) -> ! {
    let (text, (done, is_done)) =
        (line("interrupted while saving snapshots", "interrupted", folder), mpsc::channel());
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

/// Returns a line about the remaining tapes: `why` if there are some, `otherwise` if there are none.
pub(super) fn line(why: &str, otherwise: &str, folder: &Path) -> String {
    let n_tapes = tapes_in(folder).map_or(0, |tapes| tapes.len());
    if n_tapes == 0 {
        return format!("{otherwise}; all snapshots are saved");
    }
    format!(
        "{why}; `memreel recover {}/*.tape -o .` makes those of the {} that {} left",
        shell_word(&folder.display().to_string()),
        count(n_tapes, "tape"),
        if n_tapes == 1 { "is" } else { "are" }
    )
}

/// Removes the snapshots that a process was writing into a folder when it was killed.
pub(super) fn remove_unfinished_of(process: u32, folder: &Path) {
    let start = format!(".memreel-{process}-");
    let Ok(opened) = Folder::open(folder) else { return };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(&start) && name.ends_with(".tmp") {
            let _ = opened.remove(entry.file_name());
        }
    }
}

/// Removes the snapshots that are being written: those of the open files that have a temporary name.
fn remove_unfinished() {
    for entry in fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        let Ok(path) = fs::read_link(entry.path()) else { continue };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(".memreel-") && name.ends_with(".tmp") {
            let folder = Folder::open(path.parent().unwrap_or(&path));
            let _ = folder.and_then(|folder| folder.remove(&*name));
        }
    }
}
