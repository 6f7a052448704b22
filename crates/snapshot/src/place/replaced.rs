//! Replaces files completely or not at all.
#![forbid(unsafe_code)]

use std::{fs::File, io};

use super::{Found, Place};

/// Whether a file is on the disk once it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Durability {
    Synced,
    /// The system writes it when it likes.
    Unsynced,
}

/// Whether to write into a pipe or a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    FileOnly,
    Anything,
}

/// Writes a file under a temporary name in the same folder, then renames it.
///
/// Renaming within a folder never crosses devices, and readers see the old file
/// or the new one, never half of either. Nothing is written into a pipe or a device unless the target may be one.
pub(crate) fn replace(
    place: &Place,
    (durability, target): (Durability, Target),
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let found = place.found()?;
    if target == Target::Anything && matches!(found, Found::Other) {
        return fill(&mut place.open_other()?);
    }
    if matches!(found, Found::Folder | Found::Other) {
        let what = "it is a folder, a device or a pipe, not a file (pickle::write writes into anything)";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let mut begun = place.begin()?;
    fill(&mut begun.file)?;
    if let Found::File(permissions) = found {
        begun.file.set_permissions(permissions)?;
    }
    if durability == Durability::Synced {
        begun.file.sync_all()?;
    }
    begun.finish()?;
    // The new name itself is on the disk only with its folder.
    if durability == Durability::Synced {
        place.sync();
    }
    Ok(())
}
