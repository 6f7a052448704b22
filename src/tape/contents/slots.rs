//! The slots of a file, each of which is read twice, because its process may be writing it.
#![forbid(unsafe_code)]

use std::io;

use super::{Contents, Words};
use crate::tape::{
    layout::{BODY_BYTES, HEADER_BYTES, Kind, SLOT_BYTES, SLOT_HEADER_BYTES, STEP_BYTES, SlotWord},
    read_slot::ReadSlot,
    source::Source,
};

/// How often a slot is read while it changes.
const ATTEMPTS: usize = 4;

/// The size of a [`Preview`].
const PREVIEW_BYTES: usize = SLOT_HEADER_BYTES + size_of::<Words>();

/// The part of a slot that decides whether it is read.
pub(super) struct Preview {
    pub(super) kind: Kind,
    pub(super) owner: i64,
    /// For events: the order word of the first, 0 if there is none.
    pub(super) first: u64,
}

impl Preview {
    /// Reads the start of a slot. A slot of an unknown kind counts as a note; the reader of it reports that.
    fn read(source: &dyn Source, number: u32) -> io::Result<Preview> {
        let mut bytes = [0; PREVIEW_BYTES];
        source.read_at(start_of(number), &mut bytes)?;
        let words = header_words(&bytes);
        let kind = Kind::of(words[SlotWord::Kind as usize]).unwrap_or(Kind::Notes);
        let first = u64::from_ne_bytes(bytes[SLOT_HEADER_BYTES + 8..][..8].try_into().unwrap_or_default());
        Ok(Preview { kind, owner: words[SlotWord::Device as usize].cast_signed(), first })
    }
}

/// The first reading of a slot: if it has few events, the rest is not read.
struct First {
    bytes: Vec<u8>,
    at: u64,
}

impl First {
    /// The number of bytes in the first read, half a page.
    const LEAST_BYTES: usize = 2048;

    fn read(source: &dyn Source, at: u64) -> io::Result<First> {
        let mut first = First { bytes: Vec::new(), at };
        first.read_until(source, First::LEAST_BYTES)?;
        Ok(first)
    }

    fn read_until(&mut self, source: &dyn Source, n_bytes: usize) -> io::Result<()> {
        let from = self.bytes.len();
        // Bytes that the file no longer has count as zeros.
        self.bytes.resize(n_bytes, 0);
        source.read_at(self.at + from as u64, &mut self.bytes[from..])?;
        Ok(())
    }

    /// Returns how many events were complete when their part was read.
    fn n_whole_events(&mut self, source: &dyn Source) -> io::Result<usize> {
        loop {
            let body = &self.bytes[SLOT_HEADER_BYTES..];
            let n_whole = n_whole(body);
            if n_whole < body.len() / size_of::<Words>() || self.bytes.len() == SLOT_BYTES {
                return Ok(n_whole);
            }
            self.read_until(source, (4 * self.bytes.len()).min(SLOT_BYTES))?;
        }
    }
}

impl Contents {
    /// Reads all slots in use, in the order in which they were taken.
    pub(in crate::tape) fn used_slots(&mut self, source: &dyn Source) -> io::Result<Vec<ReadSlot>> {
        self.slots(source, &|slot| slot.kind != Kind::Free)
    }

    /// Reads the wanted slots in use, in the order in which they were taken.
    pub(super) fn slots(
        &mut self,
        source: &dyn Source,
        is_wanted: &dyn Fn(&Preview) -> bool,
    ) -> io::Result<Vec<ReadSlot>> {
        let n_bytes = source.n_bytes()?.saturating_sub(HEADER_BYTES as u64);
        let mut slots = Vec::new();
        if n_bytes % STEP_BYTES as u64 > 0 {
            self.problems
                .push(format!("the file is cut: it ends after {} bytes", n_bytes + HEADER_BYTES as u64));
        }
        // Slots whose headers are before this offset are zeros, which means free.
        let mut data_at = 0;
        for number in 0..u32::try_from(n_bytes.div_ceil(SLOT_BYTES as u64)).unwrap_or(u32::MAX) {
            if start_of(number) + PREVIEW_BYTES as u64 <= data_at {
                continue;
            }
            let preview = Preview::read(source, number)?;
            if is_wanted(&preview) {
                slots.extend(self.slot(source, number, n_bytes + HEADER_BYTES as u64)?);
            } else if preview.kind == Kind::Free {
                // Not from the current offset: what was read is a page of zeros now.
                data_at = source.next_data(start_of(number + 1));
            }
        }
        slots.sort_by_key(|slot| slot.word(SlotWord::Use));
        Ok(slots)
    }

    /// Reads a slot of a file whose size was `n_bytes`.
    pub(in crate::tape) fn slot(
        &mut self,
        source: &dyn Source,
        number: u32,
        n_bytes: u64,
    ) -> io::Result<Option<ReadSlot>> {
        let at = start_of(number);
        for _ in 0..ATTEMPTS {
            let mut first = First::read(source, at)?;
            let before = header_words(&first.bytes);
            let Some(kind) = Kind::of(before[SlotWord::Kind as usize]) else {
                self.problems
                    .push(format!("a part of the file is damaged: slot {number} is of an unknown kind"));
                return Ok(None);
            };
            if kind == Kind::Free {
                return Ok(None);
            }
            if n_bytes < at + SLOT_BYTES as u64 {
                self.problems.push(format!("the file ends within slot {number}"));
            }
            let len = match kind {
                Kind::Events => first.n_whole_events(source)? * size_of::<Words>(),
                _ => (before[SlotWord::Len as usize] as usize).min(BODY_BYTES),
            };
            let mut again = vec![0; SLOT_HEADER_BYTES + len];
            let n_again = source.read_at(at, &mut again)?;
            again.truncate(n_again.max(SLOT_HEADER_BYTES));
            // The header is read once more, because the body is read after the header.
            let mut after = vec![0; SLOT_HEADER_BYTES];
            source.read_at(at, &mut after)?;
            let after = header_words(&after);
            let is_same = |word: SlotWord| before[word as usize] == after[word as usize];
            // A chunk that was sealed meanwhile has more events than were counted.
            if [SlotWord::Kind, SlotWord::Use, SlotWord::Checksum].into_iter().all(is_same) {
                let body = again.split_off(SLOT_HEADER_BYTES);
                return Ok(Some(ReadSlot { number, words: header_words(&again), kind, body }));
            }
        }
        self.problems.push(format!("slot {number} kept changing while it was read"));
        Ok(None)
    }
}

/// Returns how many events are complete: the order word is the last word of an event to be written, and is never 0.
fn n_whole(body: &[u8]) -> usize {
    let order = |event: &&[u8]| event[8..16] != [0; 8];
    body.chunks_exact(size_of::<Words>()).take_while(order).count()
}

/// Returns the offset of a slot.
pub(in crate::tape) fn start_of(number: u32) -> u64 {
    HEADER_BYTES as u64 + u64::from(number) * SLOT_BYTES as u64
}

pub(in crate::tape) fn header_words(bytes: &[u8]) -> [u64; SLOT_HEADER_BYTES / 8] {
    std::array::from_fn(|at| u64::from_ne_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap_or_default()))
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::{cell::Cell, fs::File};

    use super::*;
    use crate::tape::{Beginning, Slot, TakenAt, TapeFile, layout::Owner, source};
    use memreel_snapshot::words::DeviceId;

    /// A file that counts how often it is read, and how many bytes.
    struct Counted<'f>(&'f File, Cell<[u64; 2]>);

    impl Source for Counted<'_> {
        fn n_bytes(&self) -> io::Result<u64> {
            Source::n_bytes(self.0)
        }

        fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
            let [n_reads, n_bytes] = self.1.get();
            self.1.set([n_reads + 1, n_bytes + buffer.len() as u64]);
            Source::read_at(self.0, at, buffer)
        }

        fn next_data(&self, at: u64) -> u64 {
            Source::next_data(self.0, at)
        }
    }

    /// Thousands of processes record a few events and end.
    #[test]
    fn of_a_short_tape_what_is_not_used_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("short.tape");
        let tape = TapeFile::create(&path, Beginning { start_us: 1, ns_of_ticks: 1 << 30 }).unwrap();
        tape.map_ahead();
        let slot = |kind, bytes: &[u8]| -> Slot {
            let slot = tape.slot().unwrap();
            slot.fill(bytes);
            slot.begin(kind, Owner::Device(DeviceId(0)), TakenAt::default(), 0);
            slot.set_len(bytes.len());
            slot
        };
        let events = |n: usize| [1; 32].repeat(n);
        let _slots =
            [slot(Kind::Events, &events(2)), slot(Kind::Stacks, &[2; 640]), slot(Kind::Events, &events(700))];
        let file = File::open(&path).unwrap();
        source::prepare(&file);
        let counted = Counted(&file, Cell::default());
        let slots = Contents::default().slots(&counted, &|slot| slot.kind != Kind::Free).unwrap();
        let bodies: Vec<usize> = slots.iter().map(|slot| slot.body.len()).collect();
        assert_eq!(bodies, [64, 640, 700 * 32], "what was written");
        let [n_reads, n_bytes] = counted.1.get();
        let most_bytes = 2 * (3 * 4096 + SLOT_BYTES as u64);
        assert!(n_bytes < most_bytes, "{n_bytes} bytes");
        // On a file system that does not support this, the header of each of the 64 slots is read.
        let is_known = counted.next_data(start_of(10)) == u64::MAX;
        assert!(n_reads < if is_known { 20 } else { 80 }, "{n_reads} reads");
        assert!(is_known || !matches!(rustix::fs::fstatfs(&file).unwrap().f_type, 0xef53 | 0x0102_1994));
    }
}
