//! Reads the complete contents of a tape's file, whether or not its process is running.
//!
//! A writer may be active: each slot is read twice. What was complete in the first reading is taken from the second,
//! and a slot that was reused in between is read again. The whole file is also read twice, and the events up to the
//! newest one of the first pass are taken from the second.
#![forbid(unsafe_code)]

mod header;
mod readings;
pub(super) mod slots;

use std::collections::BTreeMap;

use super::{
    layout::{Kind, SlotWord, is_intact},
    notes::{Note, for_each_note},
    read_slot::ReadSlot,
    rows::Rows,
};
use memreel_snapshot::words::{DeviceId, InventorySegment, RunSums, SeededMap};

/// The words of an event.
type Words = [u64; 4];

/// The bytes of a stack's record before its words.
const RECORD_BYTES: usize = 16;

/// The size of what follows a stack's words: the generation of the modules.
const GENERATION_BYTES: usize = 8;

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

impl Contents {
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
