//! Packed tapes: a tape of a process that has ended, in a twentieth of its size, with everything that is in it.
//!
//! The file has a beginning and *blocks*. All numbers are little-endian, and those of variable length have seven bits in
//! each byte, the lowest first. Differences are folded, so that small ones of either sign are small.
//!
//! | part | contents |
//! | --- | --- |
//! | beginning | 16 bytes that are in no other file, and the version, 32 bits |
//! | header block | the header of the tape as it was, then how the program failed: the length of the text, and the text |
//! | step blocks | the slots of each step of the tape, in order |
//! | end block | nothing; its number is that of the steps |
//!
//! Before each block are its kind, its number, its size before and after LZ4, the CRC-32 of its bytes, and the CRC-32 of
//! these words, 32 bits each. Equal sizes mean that it is not compressed (`blocks`). A step is nine streams, whose lengths
//! come first: headers of slots and rows as differences from the one before, the bodies of stacks and notes, and six columns
//! of events (`step`, `events`). A reader rebuilds the slots, so everything above reads a tape and a packed one alike (`file`).
#![forbid(unsafe_code)]

mod blocks;
mod events;
mod file;
mod numbers;
mod step;

use self::{
    blocks::{BlockKind, push_block},
    numbers::push,
    step::StepWriter,
};
use super::{
    layout::{STEP_BYTES, STEP_SLOTS, is_tape},
    read_slot::ReadSlot,
};
pub(super) use file::PackedFile;

/// The first bytes of a packed tape. The line ends and the byte after them reveal a transfer as text.
const MAGIC: [u8; 16] = *b"memreel pack\r\n\x1a\n";

/// The version of the format. A reader rejects others.
const VERSION: u32 = 1;

/// The size of the beginning.
const START_BYTES: usize = MAGIC.len() + size_of::<u32>();

/// Returns whether bytes are the start of a packed tape.
pub(super) fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Returns whether bytes are the start of a tape, packed or not.
pub(crate) fn is_beginning(bytes: &[u8]) -> bool {
    is_tape(bytes) || is_packed(bytes)
}

/// Packs a tape's header and slots, of a file with `n_bytes` bytes. `failure` is how its program failed.
pub(super) fn pack(header: &[u8], n_bytes: u64, slots: &[ReadSlot], failure: Option<&str>) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(MAGIC);
    file.extend(VERSION.to_le_bytes());
    let text = failure.unwrap_or_default();
    let mut beginning = header.to_vec();
    push(&mut beginning, text.len() as u64);
    beginning.extend(text.as_bytes());
    push_block(&mut file, BlockKind::Header, 0, &beginning, 0);
    let mut slots: Vec<&ReadSlot> = slots.iter().collect();
    slots.sort_unstable_by_key(|slot| slot.number);
    let n_steps = u32::try_from(n_bytes.div_ceil(STEP_BYTES as u64)).unwrap_or(u32::MAX);
    let (mut writer, mut rest) = (StepWriter::new(), &slots[..]);
    for number in 0..n_steps {
        let end = (u64::from(number) + 1) * STEP_SLOTS as u64;
        let (inside, later) = rest.split_at(rest.partition_point(|slot| u64::from(slot.number) < end));
        rest = later;
        let (streams, n_slot_bytes) = writer.write(inside);
        push_block(&mut file, BlockKind::Step, number, &streams, n_slot_bytes);
    }
    push_block(&mut file, BlockKind::End, n_steps, &[], 0);
    file
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::{
        fs::{self, File},
        path::Path,
    };

    use super::{
        super::layout::{self, *},
        *,
    };
    use crate::process::testing::random::Random;
    use crate::tape::Contents;

    /// Blocks that come and go, as a program's do, and numbers that are anything.
    fn events(random: &mut Random, n: usize) -> Vec<u8> {
        let (mut live, mut ticks, mut bytes) = (Vec::<[u64; 3]>::new(), 1 << 40, Vec::new());
        for _ in 0..n {
            ticks += random.below(500);
            let (action, [address, stack, size]) = match random.below(20) {
                0 => (random.below(16), [(); 3].map(|()| random.below(u64::MAX))),
                1..10 if !live.is_empty() => (2, live.swap_remove(random.index(live.len()))),
                _ => {
                    let stack = random.below(30);
                    live.push([16 * random.below(5000), stack, 8 * stack + random.below(2)]);
                    (0, live[live.len() - 1])
                }
            };
            // The order word of an event is never 0.
            let words = [address, ticks << 4 | action, stack, size];
            words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        }
        bytes
    }

    /// The slots of three steps, some of them free, and the header of a tape.
    fn tape(random: &mut Random) -> (Vec<u8>, Vec<ReadSlot>) {
        let mut header = vec![0; HEADER_BYTES];
        header[..16].copy_from_slice(b"memreel tape\r\n\x1a\n");
        let mut put = |at: usize, word: u64| header[8 * at..8 * at + 8].copy_from_slice(&word.to_ne_bytes());
        put(HeaderWord::Version as usize, u64::from(layout::VERSION) | u64::from(BYTE_ORDER) << 32);
        put(HeaderWord::Slot as usize, SLOT_BYTES as u64 | 77 << 32);
        let sum = checksum(&header[..8 * HeaderWord::Checksum as usize]);
        header[8 * HeaderWord::Checksum as usize..][..8].copy_from_slice(&sum.to_ne_bytes());
        let mut slots = Vec::new();
        for number in 0..3 * STEP_SLOTS as u32 {
            if !random.chance(4) {
                continue;
            }
            let kind = [Kind::Events, Kind::Events, Kind::Stacks, Kind::Notes, Kind::Rows][random.index(5)];
            let n = if random.chance(3) { 1024 } else { random.index(1024) };
            let body = match kind {
                Kind::Events => events(random, n),
                _ => (0..32 * n).map(|_| random.below(3) as u8).collect(),
            };
            let mut words = [0; SLOT_HEADER_BYTES / 8];
            words[SlotWord::Kind as usize] = kind as u64;
            words[SlotWord::Use as usize] = slots.len() as u64 + 1;
            words[SlotWord::Device as usize] = random.below(u64::MAX);
            words[SlotWord::Len as usize] = if kind == Kind::Events { 0 } else { body.len() as u64 };
            words[SlotWord::Ticks as usize] = random.below(u64::MAX);
            slots.push(ReadSlot { number, words, kind, body });
        }
        (header, slots)
    }

    fn read(path: &Path) -> Option<(Vec<ReadSlot>, Vec<String>)> {
        let file = File::open(path).unwrap();
        let packed = PackedFile::open(&file, path).ok()?;
        let mut contents = Contents::default();
        let slots = contents.used_slots(&packed).unwrap();
        contents.problems.extend(packed.problems());
        Some((slots, contents.problems))
    }

    fn parts(slot: &ReadSlot) -> (u32, [u64; SLOT_HEADER_BYTES / 8], Kind, &[u8]) {
        (slot.number, slot.words, slot.kind, &slot.body)
    }

    #[test]
    fn slots_come_back_equal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tape");
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let (header, slots) = tape(&mut random);
            let failure = random.chance(2).then_some("it failed");
            fs::write(&path, pack(&header, (3 * STEP_BYTES) as u64, &slots, failure)).unwrap();
            let (again, problems) = read(&path).unwrap();
            assert_eq!(problems, [""; 0]);
            assert!(again.iter().map(parts).eq(slots.iter().map(parts)), "seed {seed}");
            let contents = Contents::header(&path).unwrap();
            assert_eq!((contents.failure.as_deref(), contents.process), (failure, 77));
        }
    }

    #[test]
    fn an_event_takes_few_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tape");
        let (header, mut slots) = tape(&mut Random::new(1));
        slots.retain(|slot| slot.kind == Kind::Events);
        let n_bytes: usize = slots.iter().map(|slot| slot.body.len()).sum();
        fs::write(&path, pack(&header, (3 * STEP_BYTES) as u64, &slots, None)).unwrap();
        let n_packed = fs::metadata(&path).unwrap().len() as usize;
        // A twentieth of these events are 32 random bytes.
        assert!(n_packed < n_bytes / 4, "{n_packed} bytes for {n_bytes}");
    }

    #[test]
    fn what_is_cut_or_damaged_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tape");
        let mut random = Random::new(7);
        let (header, slots) = tape(&mut random);
        let whole = pack(&header, (3 * STEP_BYTES) as u64, &slots, None);
        for number in 0..150 {
            let mut bytes = whole.clone();
            let at = random.index(whole.len());
            match number % 2 {
                0 => bytes.truncate(at),
                _ => bytes[at] ^= 1 << random.below(8),
            }
            fs::write(&path, bytes).unwrap();
            let Some((again, problems)) = read(&path) else { continue };
            assert!(!problems.is_empty(), "byte {at} of {}", whole.len());
            let all: Vec<_> = slots.iter().map(parts).collect();
            assert!(again.iter().all(|slot| all.contains(&parts(slot))), "byte {at}");
        }
    }

    /// With checksums that fit, as a file from somebody else has.
    #[test]
    fn anything_can_be_in_a_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tape");
        let mut random = Random::new(9);
        let (header, slots) = tape(&mut random);
        let (streams, n_bytes) = StepWriter::new().write(&slots.iter().take(9).collect::<Vec<_>>());
        for _ in 0..300 {
            let mut streams = streams.clone();
            for _ in 0..=random.below(4) {
                let at = if random.chance(2) { random.index(40) } else { random.index(streams.len()) };
                streams[at] = random.below(256) as u8;
            }
            let mut file = pack(&header, 0, &[], None);
            file.truncate(file.len() - blocks::HEAD_BYTES);
            push_block(&mut file, BlockKind::Step, 0, &streams, n_bytes);
            push_block(&mut file, BlockKind::End, 1, &[], 0);
            fs::write(&path, file).unwrap();
            read(&path).unwrap();
            let _ = Contents::read(&path).unwrap();
        }
        // A few bytes that stand for many.
        let zeros = vec![0; STEP_BYTES];
        let mut file = pack(&header, 0, &[], None);
        file.truncate(file.len() - blocks::HEAD_BYTES);
        push_block(&mut file, BlockKind::Step, 0, &zeros, 0);
        push_block(&mut file, BlockKind::End, 1, &[], 0);
        fs::write(&path, file).unwrap();
        assert_eq!(read(&path).unwrap().0.len(), 0);
    }
}
