//! The readings of a file: once, twice while its process records, or only a device's part of it.
#![forbid(unsafe_code)]

use std::{fs::File, io, path::Path};

use super::{Base, Contents, slots::Preview};
use crate::{
    process::open_plain,
    tape::{
        layout::{HEADER_BYTES, Kind, Owner},
        packed::{self, PackedFile, is_packed},
        source::{self, Source},
    },
};
use memreel_snapshot::words::{DeviceId, Error, Result, SeededMap, SeededSet};

/// How often a file is read while its process drops events.
const READINGS: usize = 8;

impl Contents {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::is_io`], and [`Error::is_malformed`] if it is not a tape that this version reads.
    pub(crate) fn read(path: &Path) -> Result<Contents> {
        let failed = |error| Error::io("cannot read the tape", path, error);
        let file = open_plain(path).map_err(failed)?;
        if is_packed(&Contents::beginning_of(&file).map_err(failed)?) {
            return Contents::read_packed(&PackedFile::open(&file, path)?).map_err(failed)?;
        }
        let mut first = Contents::pass(&file, path)?;
        for _ in 0..READINGS {
            if !first.is_running || first.is_closed {
                return Ok(first);
            }
            let mut second = Contents::pass(&file, path)?;
            if first.is_before(&second) {
                second.cut(&first);
                return Ok(second);
            }
            first = second;
        }
        first.problems.push(
            "the process dropped events faster than they could be read; some of the oldest are missing, and the \
             blocks in use may be wrong"
                .into(),
        );
        Ok(first)
    }

    /// Reads a file and packs it. Returns no packed tape if the file lacks something, or if its program may still write.
    /// `failure` is how the program failed.
    ///
    /// # Errors
    /// The errors of [`Contents::read`].
    pub(crate) fn read_and_pack(
        path: &Path,
        has_ended: bool,
        failure: Option<&str>,
    ) -> Result<(Contents, Option<Vec<u8>>)> {
        let failed = |error| Error::io("cannot read the tape", path, error);
        let file = open_plain(path).map_err(failed)?;
        let start = Contents::beginning_of(&file).map_err(failed)?;
        let mut contents = Contents::of_header(&start)?;
        if contents.is_running && !contents.is_closed && !has_ended {
            return Ok((Contents::read(path)?, None));
        }
        source::prepare(&file);
        let slots = contents.used_slots(&file).map_err(failed)?;
        let n_bytes = Source::n_bytes(&file).map_err(failed)?.saturating_sub(HEADER_BYTES as u64);
        let packed = packed::pack(&start, n_bytes, &slots, failure);
        contents.take(slots, true);
        let is_whole = contents.problems.is_empty();
        Ok((contents, Some(packed).filter(|_| is_whole)))
    }

    /// Reads what a list of a device's live blocks needs: its last list, the events of its chunks that start up to the
    /// order word `until`, and the notes of the recording. The process may still be recording. Events between the last
    /// list and `until` remain in place; others may or may not be there.
    ///
    /// # Errors
    /// The errors of [`Contents::read`].
    pub(in crate::tape) fn read_until(
        file: &File,
        path: &Path,
        device: DeviceId,
        until: u64,
    ) -> Result<Contents> {
        let failed = |error| Error::io("cannot read the tape", path, error);
        let mut contents = Contents::header_of(file).map_err(failed)??;
        let is_wanted = |slot: &Preview| {
            let is_of_device = slot.owner == Owner::Device(device).number();
            match slot.kind {
                Kind::Events => is_of_device && (1..=until).contains(&slot.first),
                Kind::Notes => is_of_device || slot.owner == Owner::Recording.number(),
                Kind::Rows => is_of_device,
                Kind::Free | Kind::Stacks => false,
            }
        };
        let slots = contents.slots(file, &is_wanted).map_err(failed)?;
        contents.take(slots, true);
        Ok(contents)
    }

    /// Reads a device's last list of live blocks; `None` if there is none.
    ///
    /// # Errors
    /// The errors of the source.
    pub(in crate::tape) fn last_list(source: &dyn Source, device: DeviceId) -> io::Result<Option<Base>> {
        let mut contents = Contents::default();
        let is_wanted = |slot: &Preview| {
            matches!(slot.kind, Kind::Notes | Kind::Rows) && slot.owner == Owner::Device(device).number()
        };
        let slots = contents.slots(source, &is_wanted)?;
        contents.take(slots, true);
        Ok(contents.bases.into_iter().next())
    }

    /// Reads the file once. Its slots are read one by one, so while a process records, an event may be missing although
    /// a later one is present.
    fn pass(file: &File, path: &Path) -> Result<Contents> {
        let failed = |error| Error::io("cannot read the tape", path, error);
        let mut contents = Contents::header_of(file).map_err(failed)??;
        source::prepare(file);
        let slots = contents.used_slots(file).map_err(failed)?;
        contents.take(slots, true);
        Ok(contents)
    }

    /// Reads a packed tape.
    fn read_packed(packed: &PackedFile<'_>) -> io::Result<Result<Contents>> {
        let mut contents = match Contents::of_packed_header(packed) {
            Ok(contents) => contents,
            refused => return Ok(refused),
        };
        let slots = contents.used_slots(packed)?;
        contents.problems.extend(packed.problems());
        contents.take(slots, true);
        Ok(Ok(contents))
    }

    /// Returns whether nothing in this pass was dropped before the next pass: each chunk is still there, and no list of
    /// live blocks is newer.
    fn is_before(&self, next: &Contents) -> bool {
        let uses = |contents: &Contents| -> SeededSet<u64> {
            contents.chunks.iter().map(|chunk| chunk.number_of_use).collect()
        };
        let untils = |contents: &Contents| -> Vec<(DeviceId, u64)> {
            let mut all: Vec<_> = contents.bases.iter().map(|base| (base.device, base.until)).collect();
            all.sort_unstable();
            all
        };
        uses(self).is_subset(&uses(next)) && untils(self) == untils(next)
    }

    /// Removes the events that are newer than the newest of an earlier pass. The rest is complete: an event is recorded
    /// after all older ones, so these were in the file when the earlier pass ended.
    fn cut(&mut self, earlier: &Contents) {
        let mut newest: SeededMap<DeviceId, u64> = SeededMap::default();
        for chunk in &earlier.chunks {
            let of_device = newest.entry(chunk.device).or_default();
            *of_device = chunk.events.iter().map(|words| words[1]).fold(*of_device, u64::max);
        }
        for chunk in &mut self.chunks {
            let limit = newest.get(&chunk.device).copied().unwrap_or(0);
            chunk.events.retain(|words| words[1] <= limit);
        }
    }
}
