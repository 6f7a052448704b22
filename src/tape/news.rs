//! Reads what is new in a tape's file since the last read.
//!
//! Events, stacks and notes are only appended to a slot while it is in one use, so a reader remembers the use of each
//! slot and how many of its bytes it has read. The cost of a read is proportional to what is new and to the number of
//! slots.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, fs::File, io, path::Path};

use super::{
    contents::{
        Contents,
        slots::{header_words, start_of},
    },
    layout::{BODY_BYTES, HEADER_BYTES, Kind, SLOT_BYTES, SLOT_HEADER_BYTES, SlotWord},
    notes::end_of_whole,
    read_slot::ReadSlot,
    source::Source,
};
use memreel_snapshot::words::{Error, Result, SeededMap};

/// How far each slot of a file was read.
#[derive(Debug, Default)]
pub(crate) struct Seen(SeededMap<u32, Read>);

/// How far a slot was read.
#[derive(Clone, Copy, Debug)]
struct Read {
    number_of_use: u64,
    n_bytes: usize,
}

impl Seen {
    fn n_bytes(&self, number: u32, number_of_use: u64) -> usize {
        let read = self.0.get(&number).filter(|read| read.number_of_use == number_of_use);
        read.map_or(0, |read| read.n_bytes)
    }
}

impl Contents {
    /// Reads the header, and the new parts of the slots. Lists of live blocks are read if `has_rows`.
    ///
    /// # Errors
    /// The errors of [`Contents::read`].
    pub(crate) fn news(file: &File, path: &Path, seen: &mut Seen, has_rows: bool) -> Result<Contents> {
        let failed = |error| Error::io("cannot read the tape", path, error);
        let mut contents = Contents::header_of(file).map_err(failed)??;
        let mut slots = contents.new_slots(file, seen, has_rows).map_err(failed)?;
        hold_back(&mut slots);
        for New { slot, n_before } in &slots {
            let read = Read { number_of_use: slot.word(SlotWord::Use), n_bytes: n_before + slot.body.len() };
            seen.0.insert(slot.number, read);
        }
        contents.take(slots.into_iter().map(|new| new.slot).collect(), has_rows);
        Ok(contents)
    }

    fn new_slots(&mut self, file: &File, seen: &Seen, has_rows: bool) -> io::Result<Vec<New>> {
        let n_bytes = file.metadata()?.len().saturating_sub(HEADER_BYTES as u64);
        let mut slots = Vec::new();
        let mut n_damaged = 0_usize;
        for number in 0..u32::try_from(n_bytes.div_ceil(SLOT_BYTES as u64)).unwrap_or(u32::MAX) {
            if !has_more(file, number, seen, has_rows)? {
                continue;
            }
            let end = n_bytes + HEADER_BYTES as u64;
            let Some(mut slot) = self.slot(file, number, end)? else { continue };
            // The checksum covers the whole body.
            n_damaged += usize::from(!slot.is_sound());
            slot.words[SlotWord::Checksum as usize] = 0;
            let n_before = seen.n_bytes(number, slot.word(SlotWord::Use)).min(slot.body.len());
            slot.body.drain(..n_before);
            slots.push(New { slot, n_before });
        }
        if n_damaged > 0 {
            self.problems.push(format!("{n_damaged} chunks are not what was written"));
        }
        slots.sort_by_key(|new| new.slot.word(SlotWord::Use));
        Ok(slots)
    }
}

/// The new part of a slot.
struct New {
    slot: ReadSlot,
    /// The number of bytes of the body that were read before.
    n_before: usize,
}

/// Returns whether a slot has more than was read from it.
fn has_more(file: &File, number: u32, seen: &Seen, has_rows: bool) -> io::Result<bool> {
    let mut bytes = [0; SLOT_HEADER_BYTES];
    Source::read_at(file, start_of(number), &mut bytes)?;
    let words = header_words(&bytes);
    let n_read = seen.n_bytes(number, words[SlotWord::Use as usize]);
    Ok(match Kind::of(words[SlotWord::Kind as usize]) {
        None | Some(Kind::Free) => false,
        Some(Kind::Rows) => has_rows,
        Some(Kind::Stacks | Kind::Notes) => words[SlotWord::Len as usize] > n_read as u64,
        Some(Kind::Events) if n_read >= BODY_BYTES => false,
        Some(Kind::Events) => {
            // The order word of the next event, which is the last of its words to be written.
            let mut order = [0; 8];
            Source::read_at(file, start_of(number) + (SLOT_HEADER_BYTES + n_read + 8) as u64, &mut order)?;
            order != [0; 8]
        }
    })
}

/// Removes from slots what belongs to a note that continues in a slot that is not written yet.
fn hold_back(slots: &mut [New]) {
    let mut of_owner: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (place, New { slot, .. }) in slots.iter().enumerate().filter(|(_, new)| new.slot.kind == Kind::Notes)
    {
        of_owner.entry(slot.device().0).or_default().push(place);
    }
    for places in of_owner.into_values() {
        let end = end_of_whole(places.iter().map(|place| &*slots[*place].slot.body));
        for (nth, place) in places.into_iter().enumerate() {
            let body = &mut slots[place].slot.body;
            match end {
                Some((last, _)) if nth < last => {}
                Some((last, n_bytes)) if nth == last => body.truncate(n_bytes),
                _ => body.clear(),
            }
        }
    }
}
