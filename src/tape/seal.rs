//! Writes checksums for the full chunks of a tape whose process has ended without writing them.
#![forbid(unsafe_code)]

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::Path,
};

use super::{
    contents::Contents,
    layout::{HEADER_BYTES, HeaderWord, Kind, SLOT_BYTES, SLOT_HEADER_BYTES, STEP_BYTES, SlotWord, checksum},
};
use memreel_snapshot::words::{Error, Result};

/// Writes the missing checksums. Nothing may write into the file meanwhile.
///
/// # Errors
/// [`Error::is_io`], and [`Error::is_malformed`] if it is not a tape that this version reads.
pub(crate) fn seal(path: &Path) -> Result<()> {
    Contents::open_header(path)?;
    seal_slots(path).map_err(|error| Error::io("cannot seal the tape", path, error))
}

/// Removes the part that a keeper reserved and nothing used.
fn cut_unused(file: &File) -> io::Result<()> {
    let mut word = [0; 8];
    file.read_exact_at(&mut word, 8 * HeaderWord::NSteps as u64)?;
    let used = u64::from_ne_bytes(word).saturating_mul(STEP_BYTES as u64).saturating_add(HEADER_BYTES as u64);
    if used < file.metadata()?.len() { file.set_len(used) } else { Ok(()) }
}

fn seal_slots(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    cut_unused(&file)?;
    let (mut slot, mut at) = (vec![0; SLOT_BYTES], HEADER_BYTES as u64);
    let end = file.metadata()?.len();
    while at + SLOT_BYTES as u64 <= end {
        file.read_exact_at(&mut slot, at)?;
        let word = |of: usize| u64::from_ne_bytes(slot[8 * of..][..8].try_into().unwrap_or_default());
        let is_events = Kind::of(word(SlotWord::Kind as usize)) == Some(Kind::Events);
        // The order word is the second of an event's four, and is written last.
        let is_full = word(SLOT_BYTES / 8 - 3) != 0;
        if is_events && is_full && word(SlotWord::Checksum as usize) == 0 {
            let sum = checksum(&slot[SLOT_HEADER_BYTES..]);
            file.write_all_at(&sum.to_ne_bytes(), at + 8 * SlotWord::Checksum as u64)?;
        }
        at += SLOT_BYTES as u64;
    }
    Ok(())
}
