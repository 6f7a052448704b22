//! One step of a tape: its slots in use, taken apart into streams that compress well, and put together again.
#![forbid(unsafe_code)]

use super::{
    super::{
        layout::{BODY_BYTES, Kind, SLOT_BYTES, SLOT_HEADER_BYTES, STEP_BYTES, STEP_SLOTS, SlotWord},
        read_slot::ReadSlot,
        rows::ROW_BYTES,
    },
    blocks::is_bounded,
    events::{EventReader, EventWriter, N_COLUMNS, Words},
    numbers::{push, push_change, take, take_change},
};

const EVENT_BYTES: usize = size_of::<Words>();
const N_HEADER_WORDS: usize = SLOT_HEADER_BYTES / 8;
const N_ROW_WORDS: usize = ROW_BYTES / 8;

/// The streams beside the columns of events: headers of slots, rows, and other bytes.
const N_OTHERS: usize = 3;
const N_STREAMS: usize = N_OTHERS + N_COLUMNS;

/// Takes the slots of one step after the other apart.
pub(super) struct StepWriter {
    events: EventWriter,
    streams: [Vec<u8>; N_OTHERS],
    row: [u64; N_ROW_WORDS],
    n_slot_bytes: usize,
}

impl StepWriter {
    pub(super) fn new() -> StepWriter {
        let (events, streams) = (EventWriter::new(), <[Vec<u8>; N_OTHERS]>::default());
        StepWriter { events, streams, row: [0; N_ROW_WORDS], n_slot_bytes: 0 }
    }

    /// Returns the streams of a step's slots, whose numbers rise, and how many bytes these have.
    pub(super) fn write(&mut self, slots: &[&ReadSlot]) -> (Vec<u8>, usize) {
        self.events.clear();
        self.streams.iter_mut().for_each(Vec::clear);
        (self.row, self.n_slot_bytes) = ([0; N_ROW_WORDS], 0);
        let mut before = [0; N_HEADER_WORDS];
        for slot in slots {
            let [headers, ..] = &mut self.streams;
            headers.extend(u8::try_from(slot.number as usize % STEP_SLOTS));
            before.iter().zip(slot.words).for_each(|(from, to)| push_change(headers, *from, to));
            push(headers, slot.body.len() as u64);
            before = slot.words;
            self.body(slot.kind, &slot.body);
            self.n_slot_bytes += SLOT_HEADER_BYTES + slot.body.len();
        }
        let all = || self.streams.iter().chain(&self.events.columns);
        let mut bytes = Vec::with_capacity(all().map(Vec::len).sum::<usize>() + 64);
        all().for_each(|stream| push(&mut bytes, stream.len() as u64));
        all().for_each(|stream| bytes.extend(stream));
        (bytes, self.n_slot_bytes)
    }

    fn body(&mut self, kind: Kind, body: &[u8]) {
        let [_, rows, others] = &mut self.streams;
        match kind {
            Kind::Events => {
                let events = body.chunks_exact(EVENT_BYTES);
                events.for_each(|event| self.events.push(std::array::from_fn(|at| word(event, at))));
            }
            Kind::Rows => {
                let all = body.chunks_exact(ROW_BYTES);
                others.extend(all.remainder());
                for row in all {
                    let row = std::array::from_fn(|at| word(row, at));
                    self.row.iter().zip(row).for_each(|(from, to)| push_change(rows, *from, to));
                    self.row = row;
                }
            }
            _ => others.extend(body),
        }
    }
}

/// Puts the slots of a step together, in bytes that are zeros; `None` if the streams, which took `n_packed` bytes of the
/// file, are damaged.
pub(super) fn read_step(streams: &[u8], n_packed: usize, step: &mut [u8]) -> Option<()> {
    let Streams { others: [mut headers, mut rows, mut others], columns } = Streams::of(streams)?;
    let mut events = EventReader::new(columns);
    let (mut before, mut row) = ([0; N_HEADER_WORDS], [0; N_ROW_WORDS]);
    let (mut next, mut n_slot_bytes) = (0, 0);
    while let Some((place, rest)) = headers.split_first() {
        headers = rest;
        let place = usize::from(*place);
        if place < next || place >= STEP_SLOTS {
            return None;
        }
        next = place + 1;
        for word in &mut before {
            *word = take_change(&mut headers, *word)?;
        }
        let len = usize::try_from(take(&mut headers)?).ok().filter(|len| *len <= BODY_BYTES)?;
        n_slot_bytes += SLOT_HEADER_BYTES + len;
        if !is_bounded(n_slot_bytes, n_packed) {
            return None;
        }
        let slot = step.get_mut(place * SLOT_BYTES..(place + 1) * SLOT_BYTES)?;
        let (header, body) = slot.split_at_mut(SLOT_HEADER_BYTES);
        put(header, &before);
        match Kind::of(before[SlotWord::Kind as usize])? {
            Kind::Events => {
                for event in body[..len].chunks_exact_mut(EVENT_BYTES) {
                    put(event, &events.read()?);
                }
            }
            Kind::Rows => {
                let mut all = body[..len].chunks_exact_mut(ROW_BYTES);
                for bytes in all.by_ref() {
                    for word in &mut row {
                        *word = take_change(&mut rows, *word)?;
                    }
                    put(bytes, &row);
                }
                fill(all.into_remainder(), &mut others)?;
            }
            _ => fill(&mut body[..len], &mut others)?,
        }
    }
    Some(())
}

/// The streams of a step that is read.
struct Streams<'s> {
    others: [&'s [u8]; N_OTHERS],
    columns: [&'s [u8]; N_COLUMNS],
}

impl<'s> Streams<'s> {
    /// Finds the streams, whose lengths come first.
    fn of(mut bytes: &'s [u8]) -> Option<Streams<'s>> {
        let mut lens = [0; N_STREAMS];
        for len in &mut lens {
            *len = usize::try_from(take(&mut bytes)?).ok()?;
        }
        let mut all = [&[][..]; N_STREAMS];
        for (stream, len) in all.iter_mut().zip(lens) {
            (*stream, bytes) = bytes.split_at_checked(len)?;
        }
        let (others, columns) = all.split_at(N_OTHERS);
        Some(Streams { others: others.try_into().ok()?, columns: columns.try_into().ok()? })
    }
}

fn fill(bytes: &mut [u8], from: &mut &[u8]) -> Option<()> {
    let (taken, rest) = from.split_at_checked(bytes.len())?;
    bytes.copy_from_slice(taken);
    *from = rest;
    Some(())
}

fn put(bytes: &mut [u8], words: &[u64]) {
    bytes.chunks_exact_mut(8).zip(words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_ne_bytes()));
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap_or_default())
}

/// Returns the bytes of a step of which no slot is in use.
pub(super) fn empty_step() -> Vec<u8> {
    vec![0; STEP_BYTES]
}
