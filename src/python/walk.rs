//! Walks from a thread's state along its frames.

use super::{
    code::word_of,
    codes::Codes,
    layout::{FrameLayout, Layout, Position},
    memory::{is_address, read},
};

/// The most frames that are visited; those of the interpreter itself count too.
const MAX_STEPS: usize = 512;

/// The bits of a reference that may contain a tag.
const TAG: usize = 0b111;

/// Writes the words of a thread's frames, innermost first, and returns how many there are.
///
/// # Safety
///
/// The state is the calling thread's, of an interpreter with this layout and type of code objects, and is not freed
/// meanwhile (`ending.rs`).
#[inline]
pub(super) unsafe fn walk(
    layout: &Layout,
    code_type: usize,
    state: usize,
    codes: &Codes,
    words: &mut [usize],
) -> usize {
    let mut n = 0;
    // SAFETY: the frames of this thread cannot change while it is here, and each was made by the interpreter; what
    // cannot be an address is not followed.
    unsafe {
        let mut frame: usize = read(state + layout.thread_frame);
        if let Some(at) = layout.between {
            frame = if is_address(frame) { read(frame + at) } else { 0 };
        }
        for _ in 0..MAX_STEPS {
            if n == words.len() || !is_address(frame) {
                break;
            }
            if let Some(word) = word(layout, code_type, frame, codes) {
                words[n] = word;
                n += 1;
            }
            frame = read(frame + layout.frame.previous);
        }
    }
    n
}

/// Returns the word of a frame; none for a frame of the interpreter itself.
///
/// # Safety
///
/// A frame of this layout is at the address.
#[inline(always)]
unsafe fn word(layout: &Layout, code_type: usize, frame: usize, codes: &Codes) -> Option<usize> {
    let of = &layout.frame;
    // SAFETY: by the contract; the type is compared before an object is used as a code object.
    unsafe {
        if of.owner.is_some_and(|at| read::<u8>(frame + at) >= FrameLayout::FIRST_INTERNAL) {
            return None;
        }
        let code = read::<usize>(frame + of.code) & !TAG;
        if !is_address(code) || read::<usize>(code + layout.object_type) != code_type {
            return None;
        }
        let offset = match of.position {
            Position::Index { at, unit } => read::<i32>(frame + at).saturating_mul(unit),
            Position::Pointer(at) => {
                let start = code + layout.code.instructions;
                read::<usize>(frame + at).wrapping_sub(start) as i32
            }
            Position::PointerInCopy(at, number_at) => {
                let start = copy_of(layout, code, read(frame + number_at));
                read::<usize>(frame + at).wrapping_sub(start) as i32
            }
        };
        Some(word_of(codes.number(layout, code), offset))
    }
}

/// Returns the first instruction of a thread's copy of a code object.
///
/// # Safety
///
/// A code object of this layout, in a build without the lock, is at the address.
#[inline(always)]
unsafe fn copy_of(layout: &Layout, code: usize, number: i32) -> usize {
    // SAFETY: by the contract: a list's length and its elements.
    unsafe {
        let list: usize = read(code + layout.code.copies);
        match usize::try_from(number) {
            Ok(number) if is_address(list) && number < read::<usize>(list) => read(list + 8 + 8 * number),
            _ => code + layout.code.instructions,
        }
    }
}
