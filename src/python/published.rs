//! Reads the offsets that CPython 3.13 and later publish at the start of `_PyRuntime`: `_Py_DebugOffsets`.
//!
//! Each version lists its fields at different offsets; these offsets are here, from the headers
//! (`tests/python/offsets.c`).
#![forbid(unsafe_code)]

use super::layout::{BytesLayout, CodeLayout, FrameLayout, Layout, Position, TO_VERSION, TextLayout};

/// The bytes at the start of a published list.
const COOKIE: &[u8; 8] = b"xdebugpy";

/// How many bytes of `_PyRuntime` are read: the longest list has more than 800.
pub(super) const N_BYTES: usize = 768;

/// An upper bound for offsets in the objects that memreel reads.
const MAX_OFFSET: usize = 4096;

/// The offsets of the groups in a version's list, in bytes.
struct Places {
    /// `current_frame` of the thread's state.
    current_frame: usize,
    /// `previous` of a frame; `executable` and `instr_ptr` are next, then one more, then `owner`.
    previous: usize,
    /// `tlbc_index` of a frame, if there is one.
    copy_index: Option<usize>,
    /// `filename` of a code object; `name`, `qualname`, `linetable` and `firstlineno` are next.
    filename: usize,
    instructions: usize,
    copies: Option<usize>,
    object_type: usize,
    /// `ob_size` of a list of bytes; `ob_sval` is next.
    bytes: usize,
    /// `state` of a text; `length` and the size of its header are next.
    text: usize,
}

fn places(minor: u32) -> Option<Places> {
    let places = match minor {
        13 => Places {
            current_frame: 184,
            previous: 232,
            copy_index: None,
            filename: 280,
            instructions: 344,
            copies: None,
            object_type: 360,
            bytes: 520,
            text: 544,
        },
        14 => Places {
            current_frame: 208,
            previous: 256,
            copy_index: Some(304),
            filename: 320,
            instructions: 384,
            copies: Some(392),
            object_type: 408,
            bytes: 600,
            text: 624,
        },
        15 => Places {
            current_frame: 208,
            previous: 320,
            copy_index: Some(368),
            filename: 384,
            instructions: 448,
            copies: Some(456),
            object_type: 472,
            bytes: 696,
            text: 720,
        },
        _ => return None,
    };
    Some(places)
}

/// Returns the layout that the start of `_PyRuntime` publishes, or the reason why there is none.
pub(super) fn layout(minor: u32, bytes: &[u8; N_BYTES]) -> Result<Layout, String> {
    if bytes[..8] != *COOKIE {
        return Err("it publishes no offsets".into());
    }
    let word = |at: usize| -> u64 { u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i])) };
    let version = word(8);
    if version >> 16 != 3 << 8 | u64::from(minor) {
        return Err(format!("its offsets are of version {version:#x}"));
    }
    let is_free = word(16) != 0;
    let places = places(minor).ok_or("its offsets have an unknown order")?;
    let offset = |at: usize| -> Result<usize, String> {
        let offset = usize::try_from(word(at)).ok().filter(|offset| *offset < MAX_OFFSET);
        offset.ok_or_else(|| format!("its offset at {at} is {:#x}", word(at)))
    };
    let instruction = offset(places.previous + 16)?;
    let position = match (is_free, places.copy_index) {
        (true, Some(at)) => Position::PointerInCopy(instruction, offset(at)?),
        _ => Position::Pointer(instruction),
    };
    let ascii = offset(places.text + 16)?;
    Ok(Layout {
        minor,
        thread_frame: offset(places.current_frame)?,
        between: None,
        frame: FrameLayout {
            previous: offset(places.previous)?,
            code: offset(places.previous + 8)?,
            position,
            owner: Some(offset(places.previous + 32)?),
        },
        code: CodeLayout {
            filename: offset(places.filename)?,
            name: offset(places.filename + 8)?,
            qualname: Some(offset(places.filename + 16)?),
            line_table: offset(places.filename + 24)?,
            first_line: offset(places.filename + 32)?,
            version: Some(offset(places.filename + 32)? + TO_VERSION),
            instructions: offset(places.instructions)?,
            copies: places.copies.map_or(Ok(0), offset)?,
        },
        object_type: offset(places.object_type)?,
        text: TextLayout {
            state: offset(places.text)?,
            length: offset(places.text + 8)?,
            ascii,
            // The length in UTF-8 and its address.
            other: ascii + 16,
            // A build without the lock has the flag *interned* in a separate byte, from 3.14 on.
            width_bit: if is_free && minor >= 14 { 8 } else { 2 },
        },
        bytes: BytesLayout { length: offset(places.bytes)?, bytes: offset(places.bytes + 8)? },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a list with the offset `at / 8` at each place.
    fn published(minor: u8, is_free: bool) -> [u8; N_BYTES] {
        let mut bytes = [0; N_BYTES];
        for (i, word) in bytes.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&(i as u64).to_le_bytes());
        }
        bytes[..8].copy_from_slice(COOKIE);
        bytes[8..16].copy_from_slice(&[0xf0, 0, minor, 3, 0, 0, 0, 0]);
        bytes[16..24].copy_from_slice(&u64::from(is_free).to_le_bytes());
        bytes
    }

    #[test]
    fn a_list_of_a_known_version_is_read() {
        for minor in 13..=15 {
            let at = places(minor.into()).unwrap();
            let layout = layout(minor.into(), &published(minor, false)).unwrap();
            assert_eq!(layout.frame.owner, Some(at.previous / 8 + 4));
            assert_eq!(layout.code.first_line, at.filename / 8 + 4);
            assert_eq!(
                (layout.frame.position, layout.text.width_bit),
                (Position::Pointer(at.previous / 8 + 2), 2)
            );
        }
    }

    #[test]
    fn a_build_without_the_lock_has_copies_of_code_from_3_14_on() {
        let of = |minor: u8| layout(minor.into(), &published(minor, true)).unwrap();
        assert_eq!((of(13).frame.position, of(13).text.width_bit), (Position::Pointer(31), 2));
        assert_eq!((of(14).frame.position, of(14).text.width_bit), (Position::PointerInCopy(34, 38), 8));
        assert_eq!(of(15).code.copies, 57);
    }

    #[test]
    fn what_is_not_such_a_list_is_refused_with_a_reason() {
        let mut bytes = published(14, false);
        assert!(layout(13, &bytes).unwrap_err().contains("0x30e00f0"));
        assert!(layout(16, &published(16, false)).unwrap_err().contains("unknown order"));
        bytes[256..264].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(layout(14, &bytes).unwrap_err().contains("offset at 256"));
        bytes[0] = 0;
        assert!(layout(14, &bytes).unwrap_err().contains("publishes no offsets"));
    }
}
