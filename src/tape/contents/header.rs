//! The header of a tape's file, and what it says about the process.
#![forbid(unsafe_code)]

use std::{fs::File, io, path::Path};

use super::Contents;
use crate::{
    process::{counters, open_plain},
    tape::{
        layout::{BYTE_ORDER, HEADER_BYTES, HeaderWord, SLOT_BYTES, VERSION, is_intact, is_tape},
        owner_process::is_running,
        packed::{PackedFile, is_packed},
        source::Source,
    },
};
use memreel_snapshot::words::{Error, Result};

impl Contents {
    /// Reads only the header.
    ///
    /// # Errors
    /// The errors of [`Contents::read`].
    pub(crate) fn header(path: &Path) -> Result<Contents> {
        let failed = |error| Error::io("cannot read the tape", path, error);
        let file = open_plain(path).map_err(failed)?;
        let start = Contents::beginning_of(&file).map_err(failed)?;
        match is_packed(&start) {
            true => Contents::of_packed_header(&PackedFile::open(&file, path)?),
            false => Contents::of_header(&start),
        }
    }

    /// Reads only the header of a tape that more is to be written into, which a packed one is not.
    ///
    /// # Errors
    /// The errors of [`Contents::read`].
    pub(in crate::tape) fn open_header(path: &Path) -> Result<Contents> {
        let failed = |error| Error::io("cannot read the tape", path, error);
        Contents::header_of(&open_plain(path).map_err(failed)?).map_err(failed)?
    }

    pub(in crate::tape) fn header_of(file: &File) -> io::Result<Result<Contents>> {
        Ok(Contents::of_header(&Contents::beginning_of(file)?))
    }

    pub(super) fn of_header(bytes: &[u8]) -> Result<Contents> {
        if is_packed(bytes) {
            return Err(Error::foreign("a packed tape: its process has ended, and nothing is added to it"));
        }
        if !is_tape(bytes) {
            return Err(Error::foreign("not a tape: it does not start like one"));
        }
        if bytes.len() < HEADER_BYTES {
            let what = format!("the tape ends after {} bytes, within its header", bytes.len());
            return Err(Error::malformed(bytes.len() as u64, what));
        }
        let at = |word: HeaderWord| word as usize * 8;
        let word = |word: HeaderWord| {
            u64::from_ne_bytes(bytes[at(word)..at(word) + 8].try_into().unwrap_or_default())
        };
        let (version, order) = halves(word(HeaderWord::Version));
        let refused = |what: String| Err(Error::malformed(at(HeaderWord::Version) as u64, what));
        if order != BYTE_ORDER {
            return refused(
                "the tape has another byte order; recover it on the kind of machine that wrote it".into(),
            );
        }
        if version != VERSION {
            return refused(format!(
                "the tape has version {version} of the layout, this memreel reads version {VERSION}; use the \
                 memreel that recorded it"
            ));
        }
        if !is_intact(&bytes[..at(HeaderWord::Checksum)], word(HeaderWord::Checksum)) {
            return refused("the tape's header is damaged".into());
        }
        let (slot_bytes, process) = halves(word(HeaderWord::Slot));
        if slot_bytes as usize != SLOT_BYTES {
            return refused(format!("the tape has slots of {slot_bytes} bytes instead of {SLOT_BYTES}"));
        }
        let began = (word(HeaderWord::ProcessStart), word(HeaderWord::PidNamespace));
        let (n_unseen, n_unrecorded) = counters::halves(word(HeaderWord::NUnseen));
        let (n_elsewhere, n_lost) = counters::halves(word(HeaderWord::NElsewhere));
        Ok(Contents {
            is_running: is_running(process, began.0, began.1),
            began,
            process,
            start_us: word(HeaderWord::StartUs),
            ns_of_ticks: word(HeaderWord::NsOfTicks),
            is_closed: word(HeaderWord::IsClosed) != 0,
            n_elsewhere,
            n_lost,
            n_unseen,
            n_unrecorded,
            ..Contents::default()
        })
    }

    pub(super) fn of_packed_header(packed: &PackedFile<'_>) -> Result<Contents> {
        let contents = Contents::of_header(packed.header())?;
        // Only the tape of a process that has ended is packed, whatever has its number now.
        Ok(Contents { is_running: false, failure: packed.failure().map(str::to_owned), ..contents })
    }

    /// Returns the header's bytes, or all of a shorter file.
    pub(super) fn beginning_of(file: &File) -> io::Result<Vec<u8>> {
        let mut start = vec![0; HEADER_BYTES];
        let n_bytes = Source::read_at(file, 0, &mut start)?;
        start.truncate(n_bytes);
        Ok(start)
    }
}

#[allow(clippy::cast_possible_truncation)] // The halves have 32 bits.
fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}
