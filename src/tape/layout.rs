//! The layout of the file: its header, and the header of each slot.
#![forbid(unsafe_code)]

use memreel_snapshot::words::DeviceId;

/// The first bytes of a tape. The line ends and the byte after them reveal a transfer as text.
pub(super) const MAGIC: [u8; 16] = *b"memreel tape\r\n\x1a\n";

/// The version of the layout. A reader rejects others.
pub(super) const VERSION: u32 = 6;

/// A number whose bytes reveal the byte order of the machine.
pub(super) const BYTE_ORDER: u32 = 0x0102_0304;

/// The size of the header. Its bytes, and those of a slot, are the same on every machine, whatever the page size.
pub(super) const HEADER_BYTES: usize = 4096;

/// The size of a slot's header: two cache lines, so that the body keeps the alignment of chunks.
pub(super) const SLOT_HEADER_BYTES: usize = 128;

/// The size of a slot's body: a chunk of 1024 events.
pub(crate) const BODY_BYTES: usize = 32 << 10;

/// The size of a slot with its header.
pub(super) const SLOT_BYTES: usize = SLOT_HEADER_BYTES + BODY_BYTES;

/// The number of slots by which a file grows: 2 MiB.
pub(super) const STEP_SLOTS: usize = 64;

/// The bytes by which a file grows.
pub(super) const STEP_BYTES: usize = STEP_SLOTS * SLOT_BYTES;

/// What a slot is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Nothing.
    Free = 0,
    Events = 1,
    Stacks = 2,
    Notes = 3,
    Rows = 4,
}

impl Kind {
    pub(super) fn of(number: u64) -> Option<Kind> {
        [Kind::Free, Kind::Events, Kind::Stacks, Kind::Notes, Kind::Rows]
            .into_iter()
            .find(|kind| *kind as u64 == number)
    }
}

/// The words of the file's header, each 8 bytes, by their number.
#[derive(Clone, Copy, Debug)]
pub(super) enum HeaderWord {
    /// The version; in the upper half, the byte order.
    Version = 2,
    /// The size of a slot; in the upper half, the PID.
    Slot = 3,
    /// The time of tick 0, in microseconds since the Unix epoch.
    StartUs = 4,
    /// The nanoseconds of 2^30 ticks, as known at the start.
    NsOfTicks = 5,
    /// When the process started, by the kernel's count: this and the PID distinguish it from later processes.
    ProcessStart = 6,
    /// The checksum of the preceding words.
    Checksum = 7,
    /// 1 once the recording has ended properly.
    IsClosed = 8,
    /// The number of chunks that are not in the file, because it could not grow; in the upper half, the number of
    /// events that were not recorded.
    NElsewhere = 9,
    /// The number of the next use of a slot.
    NextUse = 10,
    /// The number of the file's steps, including the keeper's.
    NSteps = 11,
    /// The namespace of the PID; 0 if it is not known.
    PidNamespace = 12,
    /// The number of steps, from the first, whose bytes a keeper in another process has reserved.
    NPromised = 13,
    /// The number of children that allocated in forks that no handler saw; in the upper half, the number of programs
    /// that the process started but that could not be recorded.
    NUnseen = 14,
    /// The device that is the process's heap, and the recorder's share of it, encoded by `own_memory`; 0 if no heap is
    /// recorded.
    Heap = 15,
    /// The address of the process's table of the recorder's own mappings, by `own_maps`; 0 in older tapes. It comes
    /// after the words of devices.
    OwnMaps = 511,
}

/// The first of the header's words about devices, [`N_DEVICE_WORDS`] for each.
pub(super) const DEVICES_AT: usize = 16;

/// The number of [`DeviceWord`]s.
pub(super) const N_DEVICE_WORDS: usize = 5;

/// The most devices that the header has words for.
pub(super) const MAX_DEVICES: usize = (HEADER_BYTES / 8 - DEVICES_AT) / N_DEVICE_WORDS;

const _: () = assert!(DEVICES_AT + MAX_DEVICES * N_DEVICE_WORDS <= HeaderWord::OwnMaps as usize);

/// The words of a device, through which a recorder and a keeper in another process agree.
#[derive(Clone, Copy, Debug)]
pub(super) enum DeviceWord {
    /// How often a list of the recorder was started, which does not continue the previous one; 0 in free words.
    Begun = 0,
    /// The device's number, signed.
    Device = 1,
    /// The order word up to which the keeper is to fold.
    Due = 2,
    /// The order word up to which the keeper has folded.
    Folded = 3,
    /// The number of slots of the keeper's last list.
    ListSlots = 4,
}

/// What a file records about its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    pub(crate) start_us: u64,
    /// The nanoseconds of 2^30 ticks.
    pub(crate) ns_of_ticks: u64,
}

/// The words of a slot's header, by their number.
#[derive(Clone, Copy, Debug)]
pub(super) enum SlotWord {
    /// [`Kind`]; written last when a slot is taken, and first when it is freed.
    Kind = 0,
    /// The number of this use of the slot, rising within the file.
    Use = 1,
    /// [`Owner`], as a signed number.
    Device = 2,
    /// For stacks, notes and rows: the number of complete bytes of the body.
    Len = 3,
    /// The checksum of the body once it is complete; 0 before.
    Checksum = 4,
    /// For events: the ticks when the slot was taken.
    Ticks = 5,
    /// For events: the nanoseconds from the start to these ticks.
    ElapsedNs = 6,
    /// For events: how many of the device's events were dropped before.
    NDropped = 7,
    /// For events: the order word up to which all events of the device are in the file; 0 if all are.
    Until = 8,
}

/// The owner of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    Device(DeviceId),
    /// The whole recording.
    Recording,
    /// The starts and ends of scopes, of which the newest are kept.
    Annotations,
    /// What devices report, of which a bounded series is kept.
    Reports,
    /// A keeper in another process, whose bounded series of observations is kept.
    Outside,
}

impl Owner {
    pub(super) fn number(self) -> i64 {
        match self {
            Owner::Device(device) => device.0,
            Owner::Recording => i64::MIN,
            Owner::Annotations => i64::MIN + 1,
            Owner::Reports => i64::MIN + 2,
            Owner::Outside => i64::MIN + 3,
        }
    }
}

/// Returns the checksum of bytes, as a word that is never 0.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    sum_of_word(crc32fast::hash(bytes).to_le_bytes())
}

/// Returns the checksum whose lower half is written before a note.
pub(super) fn sum_of_word(word: [u8; 4]) -> u64 {
    u64::from(u32::from_le_bytes(word)) | 1 << 32
}

/// Returns whether bytes have a checksum. A fuzzer cannot compute checksums, so for it all bytes have.
pub(super) fn is_intact(bytes: &[u8], sum: u64) -> bool {
    cfg!(fuzzing) || checksum(bytes) == sum
}

/// Returns whether bytes are the start of a tape.
pub(super) fn is_tape(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_whole_pages_and_bodies_keep_their_alignment() {
        assert!(STEP_BYTES.is_multiple_of(4096) && HEADER_BYTES.is_multiple_of(128));
        assert!(SLOT_BYTES.is_multiple_of(128) && SLOT_HEADER_BYTES.is_multiple_of(128));
    }
}
