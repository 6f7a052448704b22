//! Reads the complete contents of a tape's file, whether or not its process is running.
//!
//! A writer may be active: each slot is read twice. What was complete in the first reading is taken from the second,
//! and a slot that was reused in between is read again. The whole file is also read twice, and the events up to the
//! newest one of the first pass are taken from the second.
//!
//! The file is long because these readings and `slot.rs`, which writes, are one protocol.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, fs::File, io, path::Path};

use super::{
    layout::{
        BODY_BYTES, BYTE_ORDER, HEADER_BYTES, HeaderWord, Kind, Owner, SLOT_BYTES, SLOT_HEADER_BYTES,
        STEP_BYTES, SlotWord, VERSION, is_intact, is_tape,
    },
    notes::{Note, for_each_note},
    owner_process::is_running,
    packed::{self, PackedFile, is_packed},
    read_slot::ReadSlot,
    rows::Rows,
    source::{self, Source},
};
use crate::process::{counters, open_plain};
use memreel_snapshot::words::{DeviceId, Error, InventorySegment, Result, RunSums, SeededMap, SeededSet};

/// The words of an event.
type Words = [u64; 4];

/// The bytes of a stack's record before its words.
const RECORD_BYTES: usize = 16;

/// The size of what follows a stack's words: the generation of the modules.
const GENERATION_BYTES: usize = 8;

/// How often a file is read while its process drops events.
const READINGS: usize = 8;

/// How often a slot is read while it changes.
const ATTEMPTS: usize = 4;

/// The contents that were read from a tape.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) process: u32,
    pub(crate) start_us: u64,
    pub(crate) ns_of_ticks: u64,
    /// The latest known pair of ticks and nanoseconds since the start.
    pub(crate) latest: (u64, u64),
    /// Whether the recording ended properly.
    pub(crate) is_closed: bool,
    /// Whether the recorded process is still running on this machine.
    pub(crate) is_running: bool,
    /// When the process started, and the namespace of its PID.
    pub(crate) began: (u64, u64),
    /// The number of chunks that the file had no room for.
    pub(crate) n_elsewhere: u64,
    /// The number of events that were not recorded.
    pub(crate) n_lost: u64,
    /// How many children allocated in forks that no handler saw.
    pub(crate) n_unseen: u64,
    /// How many programs the process started that could not be recorded.
    pub(crate) n_unrecorded: u64,
    pub(crate) chunks: Vec<EventChunk>,
    pub(crate) stacks: Vec<StackRow>,
    pub(crate) notes: Vec<Note>,
    pub(crate) bases: Vec<Base>,
    /// How the program failed, if the tape is a packed one and it did.
    pub(crate) failure: Option<String>,
    /// What is missing or broken, one sentence for each problem.
    pub(crate) problems: Vec<String>,
}

/// The events of one slot, in the order in which they were written.
#[derive(Debug)]
pub(crate) struct EventChunk {
    pub(crate) device: DeviceId,
    number_of_use: u64,
    pub(crate) events: Vec<Words>,
    /// How many events of the device were dropped before.
    pub(crate) n_dropped: u64,
}

/// A stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StackRow {
    pub(crate) number: u32,
    pub(crate) generation: u32,
    /// Return addresses, outermost first.
    pub(crate) native: Vec<usize>,
    /// The words of the frame source.
    pub(crate) source: Vec<usize>,
}

/// A device's segments as of the event with the order word `until`.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) device: DeviceId,
    pub(crate) until: u64,
    /// The order word up to which events were dropped.
    pub(crate) horizon: u64,
    /// The number of earlier events that it lacks.
    pub(crate) n_missing: u64,
    pub(crate) segments: Vec<InventorySegment>,
    /// What was allocated with each stack, by the events up to then.
    pub(crate) sums: RunSums,
}

/// The size of a [`Preview`].
const PREVIEW_BYTES: usize = SLOT_HEADER_BYTES + size_of::<Words>();

/// The part of a slot that decides whether it is read.
struct Preview {
    kind: Kind,
    owner: i64,
    /// For events: the order word of the first, 0 if there is none.
    first: u64,
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

    fn of_packed_header(packed: &PackedFile<'_>) -> Result<Contents> {
        let contents = Contents::of_header(packed.header())?;
        // Only the tape of a process that has ended is packed, whatever has its number now.
        Ok(Contents { is_running: false, failure: packed.failure().map(str::to_owned), ..contents })
    }

    /// Reads a file, and packs it. There is no packed tape if something is missing or broken, or if its program, which has not
    /// ended, may still write. `failure` is how the program failed.
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

    /// Returns the header's bytes, or all of a shorter file.
    fn beginning_of(file: &File) -> io::Result<Vec<u8>> {
        let mut start = vec![0; HEADER_BYTES];
        let n_bytes = Source::read_at(file, 0, &mut start)?;
        start.truncate(n_bytes);
        Ok(start)
    }

    pub(super) fn header_of(file: &File) -> io::Result<Result<Contents>> {
        Ok(Contents::of_header(&Contents::beginning_of(file)?))
    }

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
    pub(super) fn open_header(path: &Path) -> Result<Contents> {
        let failed = |error| Error::io("cannot read the tape", path, error);
        Contents::header_of(&open_plain(path).map_err(failed)?).map_err(failed)?
    }

    /// Reads what a list of a device's live blocks needs: its last list, the events of its chunks that start up to the
    /// order word `until`, and the notes of the recording. The process may still be recording. Events between the last
    /// list and `until` remain in place; others may or may not be there.
    ///
    /// # Errors
    /// The errors of [`Contents::read`].
    pub(super) fn read_until(file: &File, path: &Path, device: DeviceId, until: u64) -> Result<Contents> {
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
    pub(super) fn last_list(source: &dyn Source, device: DeviceId) -> io::Result<Option<Base>> {
        let mut contents = Contents::default();
        let is_wanted = |slot: &Preview| {
            matches!(slot.kind, Kind::Notes | Kind::Rows) && slot.owner == Owner::Device(device).number()
        };
        let slots = contents.slots(source, &is_wanted)?;
        contents.take(slots, true);
        Ok(contents.bases.into_iter().next())
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

    fn of_header(bytes: &[u8]) -> Result<Contents> {
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

    /// Reads all slots in use, in the order in which they were taken.
    pub(super) fn used_slots(&mut self, source: &dyn Source) -> io::Result<Vec<ReadSlot>> {
        self.slots(source, &|slot| slot.kind != Kind::Free)
    }

    /// Reads the wanted slots in use, in the order in which they were taken.
    fn slots(
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
    pub(super) fn slot(
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

    /// Adds the contents of slots; the lists of live blocks only if all rows are among them.
    pub(super) fn take(&mut self, mut slots: Vec<ReadSlot>, has_rows: bool) {
        let n_damaged = slots.iter().filter(|slot| !slot.is_sound()).count();
        for slot in slots.iter_mut().filter(|slot| slot.kind == Kind::Events) {
            self.events(slot);
            // Events are most of a tape, and must be in memory only once.
            slot.body = Vec::new();
        }
        let mut rows = SeededMap::default();
        let mut bodies: BTreeMap<DeviceId, Vec<&[u8]>> = BTreeMap::new();
        for slot in &slots {
            match slot.kind {
                Kind::Stacks => self.stacks_of(&slot.body),
                Kind::Rows => drop(rows.insert(slot.number, slot)),
                Kind::Notes => bodies.entry(slot.device()).or_default().push(&slot.body),
                Kind::Events | Kind::Free => {}
            }
        }
        if n_damaged > 0 {
            self.problems.push(format!(
                "{n_damaged} chunks are not what was written; their events are kept as they are"
            ));
        }
        let (mut notes, mut n_broken) = (Vec::new(), 0);
        // The parts of a note are in slots of one owner.
        for bodies in bodies.into_values() {
            let mut n_unknown = 0;
            n_broken += for_each_note(bodies.into_iter(), |bytes| match Note::decode(bytes) {
                Some(note) => notes.push(note),
                None => n_unknown += 1,
            });
            n_broken += n_unknown;
        }
        if n_broken > 0 {
            self.problems.push(format!("{n_broken} notes are damaged"));
        }
        if has_rows {
            self.bases(&notes, &rows);
        }
        self.notes = notes;
        self.end_where_others_are_missing(&slots);
    }

    /// Removes the events after the moment from which a device's events are not all in the file.
    fn end_where_others_are_missing(&mut self, slots: &[ReadSlot]) {
        let mut ends: SeededMap<DeviceId, u64> = SeededMap::default();
        for slot in slots.iter().filter(|slot| slot.kind == Kind::Events && slot.word(SlotWord::Until) > 0) {
            let until = slot.word(SlotWord::Until);
            ends.entry(slot.device()).and_modify(|end| *end = until.min(*end)).or_insert(until);
        }
        for chunk in &mut self.chunks {
            if let Some(end) = ends.get(&chunk.device) {
                chunk.events.retain(|words| words[1] <= *end);
            }
        }
    }

    fn events(&mut self, slot: &ReadSlot) {
        let ticks = slot.word(SlotWord::Ticks);
        if ticks > self.latest.0 {
            self.latest = (ticks, slot.word(SlotWord::ElapsedNs));
        }
        let word = |event: &[u8], at: usize| {
            u64::from_ne_bytes(event[8 * at..8 * at + 8].try_into().unwrap_or_default())
        };
        let events = slot.body.chunks_exact(size_of::<Words>());
        let events = events.map(|event| std::array::from_fn(|at| word(event, at))).collect();
        let (device, number_of_use) = (slot.device(), slot.word(SlotWord::Use));
        self.chunks.push(EventChunk {
            device,
            number_of_use,
            events,
            n_dropped: slot.word(SlotWord::NDropped),
        });
    }

    fn stacks_of(&mut self, body: &[u8]) {
        let mut rest = body;
        while rest.len() > RECORD_BYTES {
            let number = u32::from_ne_bytes(rest[8..12].try_into().unwrap_or_default());
            let [native, source] = [12, 14].map(|at| u16::from_ne_bytes([rest[at], rest[at + 1]]) as usize);
            let n_words = native + source;
            let end = RECORD_BYTES + n_words * size_of::<usize>() + GENERATION_BYTES;
            let Some(record) = rest.get(..end) else {
                return self.problems.push("a list of stacks is damaged".into());
            };
            let word = |at: usize| {
                let from = RECORD_BYTES + at * size_of::<usize>();
                usize::from_ne_bytes(record[from..from + size_of::<usize>()].try_into().unwrap_or_default())
            };
            let generation = record[end - GENERATION_BYTES..]
                .first_chunk::<4>()
                .map_or(0, |bytes| u32::from_ne_bytes(*bytes));
            self.stacks.push(StackRow {
                number,
                generation,
                native: (0..native).map(word).collect(),
                source: (native..n_words).map(word).collect(),
            });
            rest = rest.get(end.next_multiple_of(16)..).unwrap_or_default();
        }
    }

    /// Adds the latest complete base of each device. A keeper in another process may have written its last one after a
    /// later one of the recorder.
    fn bases(&mut self, notes: &[Note], rows: &SeededMap<u32, &ReadSlot>) {
        let mut done: Vec<i64> = Vec::new();
        let until = |note: &&Note| if let Note::Base { until, .. } = note { *until } else { 0 };
        let mut latest_last: Vec<&Note> = notes.iter().collect();
        latest_last.sort_by_key(until);
        for note in latest_last.into_iter().rev() {
            let Note::Base { device, until, horizon, n_missing, slots } = note else { continue };
            if done.contains(device) {
                continue;
            }
            let part = |(slot, sum): &(u32, u64)| {
                let slot = rows.get(slot)?;
                is_intact(&slot.body, *sum).then_some(&*slot.body)
            };
            // An older base, whose slots are used for something else now.
            let Some(parts) = slots.iter().map(part).collect::<Option<Vec<&[u8]>>>() else { continue };
            done.push(*device);
            let (segments, sums) = Rows(parts.concat()).decoded();
            let (device, horizon) = (DeviceId(*device), *horizon);
            let base = Base { device, until: *until, horizon, n_missing: *n_missing, segments, sums };
            self.bases.push(base);
        }
        let has_base = |note: &Note| matches!(note, Note::Base { device, .. } if !done.contains(device));
        if notes.iter().any(has_base) {
            self.problems.push("the list of blocks before the oldest event is damaged".into());
        }
    }
}

/// Returns how many events are complete: the order word is the last word of an event to be written, and is never 0.
fn n_whole(body: &[u8]) -> usize {
    let order = |event: &&[u8]| event[8..16] != [0; 8];
    body.chunks_exact(size_of::<Words>()).take_while(order).count()
}

pub(super) fn header_words(bytes: &[u8]) -> [u64; SLOT_HEADER_BYTES / 8] {
    std::array::from_fn(|at| u64::from_ne_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap_or_default()))
}

#[allow(clippy::cast_possible_truncation)] // The halves have 32 bits.
fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Returns the offset of a slot.
pub(super) fn start_of(number: u32) -> u64 {
    HEADER_BYTES as u64 + u64::from(number) * SLOT_BYTES as u64
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::tape::{Beginning, Slot, TakenAt, TapeFile};

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
