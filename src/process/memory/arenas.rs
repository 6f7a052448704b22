//! Finds glibc's arenas: which mappings are theirs, and where the last free part of each starts.
#![forbid(unsafe_code)]

use std::{fs::File, ops::Range, os::unix::fs::FileExt, path::Path};

use super::maps::Map;

/// The parts of arenas start at multiples of this, and are at most this long.
const PART_BYTES: u64 = 64 << 20;

const LEAST_PAGE_BYTES: u64 = 4 << 10;

/// The offset of the last free chunk's address in the state of an arena, since glibc 2.27.
const TOP_AT: u64 = 96;

/// The bits of a chunk's size that are flags.
const FLAGS: u64 = 7;

/// The arenas of a process, read from its memory.
pub(super) struct Arenas {
    memory: Option<File>,
    /// The addresses of their states, in the order in which they were found.
    states: Vec<u64>,
}

/// A part of an arena: one mapping.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Part {
    /// The number of its arena, counted from 1.
    pub(super) number: usize,
    /// The start of the free chunk after all others, which `malloc_trim` leaves as it is; `None` if it is not in this
    /// part.
    pub(super) top: Option<u64>,
}

impl Arenas {
    pub(super) fn of(process: &Path) -> Arenas {
        Arenas { memory: File::open(process.join("mem")).ok(), states: Vec::new() }
    }

    /// Returns which part a mapping is, if it is one: it starts at a multiple of a part's size, and its header has its
    /// length.
    pub(super) fn part(&mut self, map: &Map, after: Option<&Map>) -> Option<Part> {
        let bytes = map.range.end - map.range.start;
        let is_at_place = map.range.start.is_multiple_of(PART_BYTES) && bytes <= PART_BYTES;
        if !is_at_place || bytes < PART_BYTES && !after.is_some_and(Map::is_guard) {
            return None;
        }
        // The part before it is the second word; the bytes in use and the accessible bytes follow.
        let [state, _, used, writable] = self.words(map.range.start)?;
        // It may have grown since the mappings were read.
        let is_length =
            writable >= bytes && writable <= PART_BYTES && writable.is_multiple_of(LEAST_PAGE_BYTES);
        if !is_length || used > writable {
            return None;
        }
        let number = self.states.iter().position(|known| *known == state).unwrap_or_else(|| {
            self.states.push(state);
            self.states.len() - 1
        });
        let in_use = map.range.start..map.range.start + used;
        Some(Part { number: number + 1, top: self.top(state, &in_use) })
    }

    /// Returns where the last free chunk of an arena starts, if it ends with this part.
    fn top(&self, state: u64, part: &Range<u64>) -> Option<u64> {
        let [top] = self.words(state.checked_add(TOP_AT)?)?;
        let [size] = self.words(top.checked_add(8).filter(|_| part.contains(&top))?)?;
        (top.checked_add(size & !FLAGS) == Some(part.end)).then_some(top)
    }

    fn words<const N: usize>(&self, at: u64) -> Option<[u64; N]> {
        let mut words = [0; N];
        for (word, nth) in words.iter_mut().zip(0..) {
            let mut bytes = [0; 8];
            self.memory.as_ref()?.read_exact_at(&mut bytes, at + nth * 8).ok()?;
            *word = u64::from_ne_bytes(bytes);
        }
        Some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};

    const START: u64 = PART_BYTES;
    const STATE: u64 = START + 0x30;

    fn map(range: Range<u64>, rights: &[u8; 4]) -> Map {
        Map { range, rights: *rights, ..Map::default() }
    }

    /// Creates the memory of a process with words at some addresses.
    fn arenas(words: &[(u64, u64)]) -> Arenas {
        let mut memory = tempfile::tempfile().unwrap();
        for (at, word) in words {
            memory.seek(SeekFrom::Start(*at)).unwrap();
            memory.write_all(&word.to_ne_bytes()).unwrap();
        }
        Arenas { memory: Some(memory), states: Vec::new() }
    }

    fn part(words: &[(u64, u64)]) -> Option<Part> {
        let of_state = [(START, STATE), (START + 16, 0x8000), (START + 24, 0x9000)];
        let guard = map(START + 0x9000..START + PART_BYTES, b"---p");
        let all = [&of_state, words].concat();
        arenas(&all).part(&map(START..START + 0x9000, b"rw-p"), Some(&guard))
    }

    #[test]
    fn an_arena_says_where_its_last_free_part_begins() {
        let top = START + 0x6000;
        let of = |at: u64, size: u64| part(&[(STATE + TOP_AT, at), (at + 8, size)]);
        assert_eq!(of(top, 0x2000 | 1), Some(Part { number: 1, top: Some(top) }));
        // Another version of glibc may have something else there.
        assert_eq!(of(top, 0x1000), Some(Part { number: 1, top: None }));
        assert_eq!(of(START + 0xA000, 0x2000), Some(Part { number: 1, top: None }));
        assert_eq!(part(&[(START + 24, 0x8000), (STATE + TOP_AT, 0)]), None, "another length");
        assert_eq!(part(&[(START + 24, 0x9800), (STATE + TOP_AT, 0)]), None, "no length");
        let grown = [
            (START + 16, 0xA000),
            (START + 24, 0xB000),
            (STATE + TOP_AT, START + 0x9800),
            (START + 0x9808, 0x800),
        ];
        assert_eq!(part(&grown), Some(Part { number: 1, top: Some(START + 0x9800) }), "it grew meanwhile");
    }
}
