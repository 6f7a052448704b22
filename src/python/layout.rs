//! The byte offsets of fields in CPython's objects, on 64-bit machines.
//!
//! For 3.9 to 3.12 the offsets are constants of each minor version, from CPython's headers; `tests/python/offsets.c`
//! prints them. Later versions publish their own (`published.rs`).
#![forbid(unsafe_code)]

/// The minor versions of CPython 3 that memreel can read.
pub(super) const KNOWN: std::ops::RangeInclusive<u32> = 9..=15;

/// The distance from a code object's first line to its version, which is not among the published offsets; 3.12 and
/// later.
pub(super) const TO_VERSION: usize = 24;

/// The layout of one version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) minor: u32,
    /// In a thread's state: the address of its innermost frame, or of the structure that contains it.
    pub(super) thread_frame: usize,
    /// In the structure between a thread's state and the frame, where there is one: the address of the frame.
    pub(super) between: Option<usize>,
    pub(super) frame: FrameLayout,
    pub(super) code: CodeLayout,
    /// In every object: the address of its type.
    pub(super) object_type: usize,
    pub(super) text: TextLayout,
    pub(super) bytes: BytesLayout,
}

/// The fields of a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FrameLayout {
    pub(super) previous: usize,
    /// The address of the code object, with a tag in its low bits from 3.14 on.
    pub(super) code: usize,
    pub(super) position: Position,
    /// A byte: from [`FrameLayout::FIRST_INTERNAL`] on, the frame is the interpreter's own.
    pub(super) owner: Option<usize>,
}

impl FrameLayout {
    /// The lowest owner of frames that do not belong to a function, such as `<interpreter trampoline>`.
    pub(super) const FIRST_INTERNAL: u8 = 3;
}

/// The position of a frame in its code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Position {
    /// The index of the last instruction is at this offset, in units of this number of bytes.
    Index { at: usize, unit: i32 },
    /// The address of an instruction is at this offset.
    Pointer(usize),
    /// The address of an instruction is at the first offset; it is in the copy of the code whose number is at the
    /// second.
    PointerInCopy(usize, usize),
}

/// The fields of a code object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CodeLayout {
    pub(super) name: usize,
    pub(super) qualname: Option<usize>,
    pub(super) filename: usize,
    pub(super) first_line: usize,
    pub(super) line_table: usize,
    /// A number that is unique among code objects.
    pub(super) version: Option<usize>,
    /// The first instruction; 0 if positions are indexes.
    pub(super) instructions: usize,
    /// The address of the list of copies, in builds without the lock.
    pub(super) copies: usize,
}

/// The fields of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TextLayout {
    pub(super) state: usize,
    pub(super) length: usize,
    /// The characters of an ASCII text.
    pub(super) ascii: usize,
    /// The characters of another text.
    pub(super) other: usize,
    /// The lowest bit of the width of a character, 3 bits, in the state; the flags *compact* and *ASCII* are next.
    pub(super) width_bit: u32,
}

/// The fields of a list of bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BytesLayout {
    pub(super) length: usize,
    pub(super) bytes: usize,
}

impl Layout {
    /// Returns the layout of a version that does not publish one.
    pub(super) fn of_version(minor: u32) -> Option<Layout> {
        let is_lone_frame = minor <= 10;
        let (thread_frame, between) = match minor {
            9 | 10 => (24, None),
            11 => (56, Some(8)),
            12 => (56, Some(0)),
            _ => return None,
        };
        let (previous, code, position, owner) = match minor {
            9 => (24, 32, Position::Index { at: 104, unit: 1 }, None),
            10 => (24, 32, Position::Index { at: 96, unit: 2 }, None),
            11 => (48, 32, Position::Pointer(56), Some(69)),
            _ => (8, 0, Position::Pointer(56), Some(70)),
        };
        let of_code = if is_lone_frame {
            CodeLayout {
                name: 112,
                qualname: None,
                filename: 104,
                first_line: 40,
                line_table: 120,
                version: None,
                instructions: 0,
                copies: 0,
            }
        } else {
            let (first_line, instructions) = if minor == 11 { (72, 184) } else { (68, 192) };
            CodeLayout {
                name: 120,
                qualname: Some(128),
                filename: 112,
                first_line,
                line_table: 136,
                version: (minor == 12).then_some(first_line + TO_VERSION),
                instructions,
                copies: 0,
            }
        };
        let (ascii, other) = if minor <= 11 { (48, 72) } else { (40, 56) };
        Some(Layout {
            minor,
            thread_frame,
            between,
            frame: FrameLayout { previous, code, position, owner },
            code: of_code,
            object_type: 8,
            text: TextLayout { state: 32, length: 16, ascii, other, width_bit: 2 },
            bytes: BytesLayout { length: 16, bytes: 32 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_from_3_9_to_3_12_have_constants_and_others_do_not() {
        let known: Vec<u32> = (0..20).filter(|minor| Layout::of_version(*minor).is_some()).collect();
        assert_eq!(known, [9, 10, 11, 12]);
        assert!(known.iter().all(|minor| KNOWN.contains(minor)));
    }
}
