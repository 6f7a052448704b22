//! Copies code objects of the interpreter, and finds the frames of words in them.

use super::{
    layout::{BytesLayout, Layout, TextLayout},
    line_table,
    memory::{copy, is_address, read},
};
use crate::stack::{SourceCode, SourceFrame};

/// The longest name in a copy; longer ones are truncated.
const MAX_TEXT: usize = 4096;

/// The largest table that is copied; without a copy, all lines are 0.
const MAX_TABLE: usize = 4 << 20;

/// Returns a word: the number of a code object, and an instruction's offset in bytes.
#[inline(always)]
pub(super) fn word_of(number: u32, offset: i32) -> usize {
    (u64::from(number) << 32 | u64::from(offset.cast_unsigned())) as usize
}

/// Returns the number of a word's code object.
#[inline(always)]
pub(super) fn number_of(word: usize) -> u32 {
    (word as u64 >> 32) as u32
}

/// Returns the frame of a word in a code object.
pub(crate) fn frame_of(code: &SourceCode, word: usize) -> SourceFrame {
    let offset = i64::from((word as u32).cast_signed());
    let line = line_table::line_at(code.version, &code.line_table, code.first_line, offset);
    SourceFrame { name: code.name.clone(), filename: code.filename.clone(), line }
}

/// Returns a number that differs from that of another code object at the same address. It depends on the addresses of
/// its texts and its table, its first line, and its version. If CPython has no version, the table's length and bytes
/// count: all if there are at most 32, otherwise the first and the last 16.
///
/// # Safety
///
/// A code object of this layout is at the address.
#[inline(always)]
pub(super) unsafe fn fingerprint(layout: &Layout, code: usize) -> u64 {
    let of = &layout.code;
    // SAFETY: by the contract, these fields are there.
    unsafe {
        let (name, filename, table): (u64, u64, usize) =
            (read(code + of.name), read(code + of.filename), read(code + of.line_table));
        let first_line = u64::from(read::<u32>(code + of.first_line));
        let mut last = of.version.map_or(0, |at| u64::from(read::<u32>(code + at)));
        if last == 0 && is_address(table) {
            last = print_of_table(&layout.bytes, table);
        }
        // Addresses are multiples of 8 below 2^47, so the rotations keep their changing bits apart.
        let mixed =
            name ^ filename.rotate_left(17) ^ (table as u64).rotate_left(34) ^ first_line.rotate_left(48);
        let print = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(last.wrapping_mul(FACTORS[0]));
        print ^ print >> 32
    }
}

/// # Safety
///
/// The address is one of a list of bytes.
#[inline(always)]
unsafe fn print_of_table(of: &BytesLayout, table: usize) -> u64 {
    // SAFETY: by the contract; words are read below the end of the bytes, or one that reaches across the end of a list
    // which is shorter than a word: lists are allocated in whole words.
    unsafe {
        let (n, bytes): (usize, usize) = (read(table + of.length), table + of.bytes);
        match n {
            0 => 0,
            1..8 => read::<u64>(bytes).wrapping_shl(64 - 8 * n as u32).wrapping_mul(FACTORS[1]) ^ n as u64,
            _ => {
                let last = n - 8;
                let words = [0, last.min(8), last.saturating_sub(8), last];
                let products = (0..4).map(|i| read::<u64>(bytes + words[i]).wrapping_mul(FACTORS[i]));
                let sum = products.fold(n as u64, u64::wrapping_add);
                sum ^ sum >> 32
            }
        }
    }
}

/// Odd numbers without a pattern.
const FACTORS: [u64; 4] =
    [0xa076_1d64_78bd_642f, 0xc2b2_ae3d_27d4_eb4f, 0xd6e8_feb8_6659_fd93, 0x2545_f491_4f6c_dd1d];

/// Copies a code object.
///
/// # Safety
///
/// As for [`fingerprint`]; the thread is within a function that the object keeps alive.
pub(super) unsafe fn copied(layout: &Layout, code: usize) -> SourceCode {
    let of = &layout.code;
    // SAFETY: by the contract, these fields are there, with objects of their types.
    unsafe {
        let text_at = |offset: usize| text(&layout.text, read(code + offset));
        let name = text_at(of.name);
        let qualname = of.qualname.map_or_else(|| name.clone(), text_at);
        SourceCode {
            name,
            qualname,
            filename: text_at(of.filename),
            first_line: read(code + of.first_line),
            version: layout.minor,
            line_table: bytes(&layout.bytes, read(code + of.line_table)),
        }
    }
}

/// # Safety
///
/// The address is one of a list of bytes, or is refused by [`is_address`].
unsafe fn bytes(of: &BytesLayout, address: usize) -> Vec<u8> {
    if !is_address(address) {
        return Vec::new();
    }
    // SAFETY: by the contract.
    let n: usize = unsafe { read(address + of.length) };
    // SAFETY: the list has this length.
    if n <= MAX_TABLE { unsafe { copy(address + of.bytes, n) } } else { Vec::new() }
}

/// # Safety
///
/// The address is one of a text, or is refused by [`is_address`].
unsafe fn text(of: &TextLayout, address: usize) -> String {
    if !is_address(address) {
        return "?".into();
    }
    // SAFETY: by the contract.
    let (state, n): (u32, usize) = unsafe { (read(address + of.state), read(address + of.length)) };
    let n = n.min(MAX_TEXT);
    let state = state >> of.width_bit;
    let (width, is_compact, is_ascii) = (state & 7, state & 8 != 0, state & 16 != 0);
    let start = address + if is_ascii { of.ascii } else { of.other };
    if !is_compact || !matches!(width, 1 | 2 | 4) {
        return "?".into();
    }
    // SAFETY: a compact text has its characters behind its header.
    let bytes = unsafe { copy(start, n * width as usize) };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
    let character = |bytes: &[u8]| char::from_u32(number(bytes)).unwrap_or(char::REPLACEMENT_CHARACTER);
    bytes.chunks_exact(width as usize).map(character).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a text of 3.12 in memory: its state, its length, and its characters.
    fn made(width: u32, is_ascii: bool, characters: &[u32]) -> Vec<u64> {
        let mut words = vec![0_u64; if is_ascii { 5 } else { 7 }];
        words[2] = characters.len() as u64;
        words[4] = u64::from(1 | width << 2 | 1 << 5 | u32::from(is_ascii) << 6);
        let bytes = characters.iter().flat_map(|c| c.to_le_bytes().into_iter().take(width as usize));
        let bytes: Vec<u8> = bytes.chain([0; 8]).collect();
        words.extend(bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())));
        words
    }

    fn read_back(words: &[u64]) -> String {
        let of = Layout::of_version(12).unwrap().text;
        // SAFETY: as made above.
        unsafe { text(&of, words.as_ptr().expose_provenance()) }
    }

    #[test]
    fn texts_of_each_width_are_read() {
        let points = |text: &str| text.chars().map(u32::from).collect::<Vec<_>>();
        assert_eq!(read_back(&made(1, true, &points("forward"))), "forward");
        assert_eq!(read_back(&made(1, false, &points("größe"))), "größe");
        assert_eq!(read_back(&made(2, false, &points("λ→x"))), "λ→x");
        assert_eq!(read_back(&made(4, false, &points("a🦀"))), "a🦀");
        assert_eq!(read_back(&made(2, false, &[0xdc80])), "\u{fffd}", "half of a pair");
    }

    #[test]
    fn what_is_not_a_text_is_a_question_mark() {
        let of = Layout::of_version(12).unwrap().text;
        for address in [0, 8, 0x7fff_1234, usize::MAX - 7] {
            // SAFETY: each is refused.
            assert_eq!(unsafe { text(&of, if address == 0x7fff_1234 { address + 1 } else { address }) }, "?");
        }
        let mut legacy = made(1, true, &[65]);
        legacy[4] &= !(1 << 5);
        assert_eq!(read_back(&legacy), "?");
    }

    #[test]
    fn a_word_has_a_code_and_an_offset() {
        let word = word_of(77, -1);
        assert_eq!((number_of(word), word as u32), (77, u32::MAX));
        let code = SourceCode {
            name: "f".into(),
            qualname: "C.f".into(),
            filename: "a.py".into(),
            first_line: 7,
            version: 9,
            line_table: vec![4, 1],
        };
        let lines: Vec<u32> = [-1, 0, 2, 4, 6].map(|offset| frame_of(&code, word_of(1, offset)).line).into();
        assert_eq!(lines, [7, 7, 7, 8, 8]);
    }
}
