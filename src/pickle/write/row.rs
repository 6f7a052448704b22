//! Entries of one shape as a straight line: what is the same in all of them, joined beforehand.

#![forbid(unsafe_code)]

use super::{
    census::Census,
    out::{Out, Short},
    template::Template,
};
use crate::snapshot::{Field, TraceEntry};

/// How an entry of a shape is written whose fields stand in the order of PyTorch's.
///
/// A million entries differ in five numbers. Between them stand keys and
/// shared texts, which [`Template`] has one by one; here they are joined as far
/// as they stand together, the action and the stream with their keys, since
/// most entries have the same. Shapes in another order do without.
#[derive(Debug)]
pub(super) struct Row {
    /// What stands around the fields.
    before_action: Short,
    before_address: Short,
    before_size: Short,
    before_stream: Short,
    before_time: Short,
    /// Up to the frames, or to the end.
    tail: [Short; 2],
    /// What follows the frames, if there are any.
    after_frames: Option<Short>,
    /// From the beginning to the address, by action, once that action's text was written.
    heads: [Option<Short>; 10],
    /// From the size to the time, on this stream.
    middle: Short,
    stream: i64,
}

impl Row {
    /// If the fields of the template stand in the usual order, with little between them.
    pub(super) fn of(template: &Template) -> Option<Row> {
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
        Some(Row {
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

    /// Writes an entry of which everything shared is written already, and whose numbers are short.
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
        // Ten short things, so 160 bytes at most.
        let mut at = head.copy_to(free, 0);
        at = Short::int(i64::try_from(entry.address).ok()?).copy_to(free, at);
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
