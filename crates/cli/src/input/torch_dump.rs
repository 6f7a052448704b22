//! Finds PyTorch's own snapshot of a process, which the hook of `memreel record` writes next to the tape.

#![forbid(unsafe_code)]

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use memreel_snapshot::{Snapshot, join::merge_torch, place::open_plain};
use serde_json::Value;

use crate::{
    failure::Failure,
    input::{self, Opener},
};

/// An upper bound for the facts that the hook writes about a process next to its snapshot.
const MAX_FACTS_BYTES: u64 = 1 << 20;

/// What the hook wrote for one process.
#[derive(Debug, Default)]
pub(crate) struct TorchDump {
    /// The snapshot, if there is one.
    pub(crate) pickle: Option<PathBuf>,
    /// What to report in addition: a history that was switched off, or that there is none.
    pub(crate) note: Option<String>,
}

impl TorchDump {
    /// Removes the files, which are now in a snapshot.
    pub(crate) fn remove(tape: &Path, process: u32) {
        let folder = tape.parent().unwrap_or(Path::new(""));
        for end in ["pickle", "json"] {
            let file = folder.join(format!("{process}-torch.{end}"));
            // Most processes have none. To look takes no lock of the folder, in which other processes make their tapes.
            if file.symlink_metadata().is_ok() {
                let _ = fs::remove_file(file);
            }
        }
    }

    /// Finds what a process wrote into the folder of its tape.
    pub(crate) fn beside(tape: &Path, process: u32) -> TorchDump {
        let folder = tape.parent().unwrap_or(Path::new(""));
        let pickle = folder.join(format!("{process}-torch.pickle"));
        // The program can write anything into it.
        let facts = open_plain(folder.join(format!("{process}-torch.json"))).ok();
        let facts = facts.and_then(|file| serde_json::from_reader(file.take(MAX_FACTS_BYTES)).ok());
        let facts: Value = facts.unwrap_or_default();
        TorchDump { pickle: pickle.is_file().then_some(pickle), note: note(&facts) }
    }
}

/// Joins a snapshot of the driver's allocations with a file of PyTorch's. Returns it with the time of the dump, in words.
pub(crate) fn merged(driver: Snapshot, file: &Path, opener: &Opener) -> Result<(Snapshot, String), Failure> {
    let named = |failure: Failure| failure.of_file(&input::name(file));
    let torch = Arc::unwrap_or_clone(opener.open(file).map_err(named)?.snapshot);
    let latest = latest_us(&driver);
    let merged = merge_torch(driver, torch).map_err(|error| named(error.into()))?;
    let words = as_of(time_us(&merged), latest);
    Ok((merged, words))
}

/// The time of PyTorch's dump in a merged snapshot.
fn time_us(merged: &Snapshot) -> Option<i64> {
    merged.allocator_settings()?.get("memreel_torch_time_us")?.as_int()
}

fn latest_us(snapshot: &Snapshot) -> Option<i64> {
    snapshot.device_traces.iter().flatten().map(|entry| entry.time_us).max()
}

/// Returns when PyTorch's blocks were dumped, and how long before the last event of the tape.
fn as_of(dumped_us: Option<i64>, latest_us: Option<i64>) -> String {
    let Some(dumped_us) = dumped_us else { return "PyTorch's snapshot has no events".to_owned() };
    let when = format!("PyTorch's blocks are as of {}", utc(dumped_us));
    match latest_us.map(|latest_us| latest_us.saturating_sub(dumped_us)) {
        #[allow(clippy::cast_precision_loss, reason = "printed with one decimal")]
        Some(later_us) if later_us > 50_000 => {
            format!("{when}, {:.1} s before the last event of the tape", later_us as f64 / 1e6)
        }
        _ => when,
    }
}

/// A time of day in UTC.
fn utc(time_us: i64) -> String {
    let since = Duration::from_micros(u64::try_from(time_us).unwrap_or(0));
    let day = (UNIX_EPOCH + since).duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() % 86_400;
    format!("{:02}:{:02}:{:02} UTC", day / 3600, day / 60 % 60, day % 60)
}

/// Returns what a user must know from the facts next to a dump.
fn note(facts: &Value) -> Option<String> {
    let since = facts["history_since_us"].as_i64();
    match facts["history"].as_str()? {
        "off" if facts["by_program"] == true => {
            let when = since.map(|time_us| format!(" at {}", utc(time_us))).unwrap_or_default();
            Some(format!("the program switched PyTorch's history off{when}"))
        }
        "unavailable" => {
            let why = facts["why"].as_str().unwrap_or("no reason given");
            Some(format!("PyTorch has no history for its blocks: {why}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_is_found_beside_its_tape() {
        let folder = tempfile::tempdir().unwrap();
        let tape = folder.path().join("7-0.tape");
        let none = TorchDump::beside(&tape, 7);
        assert!(none.pickle.is_none() && none.note.is_none());
        fs::write(folder.path().join("7-torch.pickle"), "").unwrap();
        let facts = r#"{"history": "off", "by_program": true, "history_since_us": 3723000000}"#;
        fs::write(folder.path().join("7-torch.json"), facts).unwrap();
        let found = TorchDump::beside(&tape, 7);
        assert!(found.pickle.unwrap().ends_with("7-torch.pickle"));
        let note = "the program switched PyTorch's history off at 01:02:03 UTC";
        assert_eq!(found.note.as_deref(), Some(note));
        assert!(TorchDump::beside(&tape, 8).pickle.is_none());
    }

    #[test]
    fn an_old_dump_says_how_old_it_is() {
        let second = 1_000_000;
        assert_eq!(as_of(Some(60 * second), Some(60 * second)), "PyTorch's blocks are as of 00:01:00 UTC");
        let old = as_of(Some(60 * second), Some(63 * second + 200_000));
        assert_eq!(old, "PyTorch's blocks are as of 00:01:00 UTC, 3.2 s before the last event of the tape");
    }
}
