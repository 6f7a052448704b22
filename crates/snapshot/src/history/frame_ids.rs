//! Numbers of frames: frames with the same name, file and line have equal numbers.
//!
//! This is when two frames are one call to a reader; they may differ in further keys and in the order of their keys.

use super::TextIds;
use crate::{model::Frame, words::SeededMap};

/// The frames that have a number, from 0 on. They may be of several snapshots.
#[derive(Debug, Default)]
pub(crate) struct FrameIds<'a> {
    texts: TextIds<'a>,
    ids: SeededMap<(u32, u32, u64), u32>,
}

impl<'a> FrameIds<'a> {
    /// Returns the number of a frame; a new frame has the next number.
    pub(crate) fn id(&mut self, frame: &'a Frame) -> u32 {
        let key = (self.texts.id(&frame.name), self.texts.id(&frame.filename), frame.line);
        // A snapshot in memory has fewer than 2^32 frames.
        let next = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        *self.ids.entry(key).or_insert(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ShapeId;

    #[test]
    fn frames_with_the_same_name_file_and_line_have_one_number() {
        let frame = |name: &str, filename: &str, line, shape| Frame {
            name: name.into(),
            filename: filename.into(),
            line,
            shape: ShapeId(shape),
        };
        let frames = [
            frame("f", "a.py", 1, 0),
            frame("g", "a.py", 1, 0),
            frame("f", "b.py", 1, 0),
            frame("f", "a.py", 2, 0),
            frame("a.py", "f", 1, 0),
            frame("f", "a.py", 1, 7),
        ];
        let mut ids = FrameIds::default();
        assert_eq!(frames.each_ref().map(|frame| ids.id(frame)), [0, 1, 2, 3, 4, 0]);
        let is_same = |other: &Frame| frames[0].is_same_call(other);
        assert_eq!(frames.each_ref().map(is_same), [true, false, false, false, false, true]);
    }
}
