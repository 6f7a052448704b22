//! The bytes that all entries of one shape share, joined in advance so that an entry is written without branches.

#![forbid(unsafe_code)]

use super::{
    census::Census,
    out::{Out, Short},
    template::Template,
};
use crate::model::{Field, TraceEntry};

/// A template of entries whose fields are in PyTorch's order.
///
/// A million entries differ in five numbers. The keys and shared texts between
/// them are separate parts of a [`Template`]; here consecutive parts are
/// joined, and the action and the stream are joined with their keys, because
/// most entries have the same. Shapes in another order use [`Template`] alone.
#[derive(Debug)]
pub(super) struct EntryTemplate {
    before_action: Short,
    before_address: Short,
    before_size: Short,
    before_stream: Short,
    before_time: Short,
    /// Before the frames, or up to the end.
    tail: [Short; 2],
    /// After the frames, if the shape has any.
    after_frames: Option<Short>,
    /// From the first byte to the address, for each action whose text was written before.
    heads: [Option<Short>; 10],
    /// From the size to the time, for entries on `stream`.
    middle: Short,
    stream: i64,
}

impl EntryTemplate {
    /// Returns a template if the fields are in the usual order, with few bytes between them.
    pub(super) fn new(template: &Template) -> Option<EntryTemplate> {
        let mut gaps: Vec<Vec<Short>> = vec![Vec::new()];
        let mut fields = Vec::new();
        for (bytes, field) in template.parts() {
            gaps.last_mut()?.push(*bytes);
            if let Some(field) = field {
                fields.push(*field);
                gaps.push(Vec::new());
            }
        }
        let has_frames = match fields[..] {
            [Field::Action, Field::Addr | Field::DeviceFree, Field::Size, Field::Stream, Field::TimeUs] => {
                false
            }
            [
                Field::Action,
                Field::Addr | Field::DeviceFree,
                Field::Size,
                Field::Stream,
                Field::TimeUs,
                Field::Frames,
            ] => true,
            _ => return None,
        };
        let joined = |gap: usize| Short::join(&gaps[gap]);
        let tail = match gaps[5][..] {
            [one] => [one, Short::of(&[])],
            [one, two] => [one, two],
            _ => return None,
        };
        let before_stream = joined(3)?;
        let before_time = joined(4)?;
        Some(EntryTemplate {
            before_action: joined(0)?,
            before_address: joined(1)?,
            before_size: joined(2)?,
            before_stream,
            before_time,
            tail,
            after_frames: if has_frames { Some(joined(6)?) } else { None },
            heads: [None; 10],
            middle: Short::join(&[before_stream, Short::int(0), before_time])?,
            stream: 0,
        })
    }

    /// Writes an entry. `None` if something that it shares was not written before, or if a number is too large.
    #[inline(always)]
    pub(super) fn write<W: std::io::Write>(
        &mut self,
        entry: &TraceEntry,
        census: &Census<'_>,
        out: &mut Out<W>,
    ) -> Option<()> {
        let action = entry.action? as usize;
        let head = match self.heads[action] {
            Some(head) => head,
            None => self.head(action, census)?,
        };
        if entry.stream.0 != self.stream {
            self.change_stream(entry.stream.0)?;
        }
        let free = out.room()?;
        // At most ten parts of 16 bytes.
        let mut at = head.copy_to(free, 0);
        at = Short::int(i64::try_from(entry.address.0).ok()?).copy_to(free, at);
        at = self.before_size.copy_to(free, at);
        at = Short::int(i64::try_from(entry.size).ok()?).copy_to(free, at);
        at = self.middle.copy_to(free, at);
        at = Short::int(entry.time_us).copy_to(free, at);
        at = self.tail[0].copy_to(free, at);
        at = self.tail[1].copy_to(free, at);
        if let Some(after) = &self.after_frames {
            at = census.stacks[entry.stack?.index()].get()?.copy_to(free, at);
            at = after.copy_to(free, at);
        }
        out.advance(at);
        Some(())
    }

    #[cold]
    fn head(&mut self, action: usize, census: &Census<'_>) -> Option<Short> {
        let text = census.texts[census.actions[action]].get()?;
        self.heads[action] = Some(Short::join(&[self.before_action, text, self.before_address])?);
        self.heads[action]
    }

    #[cold]
    fn change_stream(&mut self, stream: i64) -> Option<()> {
        self.middle = Short::join(&[self.before_stream, Short::int(stream), self.before_time])?;
        self.stream = stream;
        Some(())
    }
}
