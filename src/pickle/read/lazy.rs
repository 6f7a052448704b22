//! A snapshot whose events stay in the file: read once for all else, and decoded again whenever they are looked at.

#![forbid(unsafe_code)]

use std::{
    cell::{Cell, RefCell},
    io,
    ops::Range,
};

use super::{
    entry_spans::{Entries, Pieces},
    parser::{Halt, Machine, Step},
    whole,
};
use crate::{
    error::Result,
    pickle::file::Bytes,
    snapshot::{Snapshot, SnapshotSource, TraceEntry, UseCounts, counted},
};

/// How much of a mapped file is in memory at most, where its entries stay in it.
const REST_BYTES: usize = 16 << 20;

/// How many events are looked at before their bytes may leave the memory.
const AT_ONCE: usize = 1 << 17;

/// A snapshot file that was read without its events.
///
/// It takes memory for segments, frames and stacks, and none for the events of
/// devices: each look at them decodes the file again, at the pace of
/// [`load`](crate::pickle::load). So it is made for few looks at large files, such as
/// those of [`write`](crate::pickle::write()) and of `rewrite`. What a file puts aside
/// under a number takes 16 bytes; memreel's own files put no event aside,
/// CPython's put every one. A file that is laid out in a way in which its
/// events cannot be found again is held as a whole.
///
/// A look from within a look reads the whole file first.
///
/// ```
/// use memreel::{pickle, snapshot::{SnapshotSource, Snapshot}};
///
/// let bytes = pickle::to_vec(&Snapshot::default());
/// let lazy = pickle::lazy(&bytes)?;
/// assert_eq!(lazy.n_events(), 0);
/// assert_eq!(pickle::to_vec(&lazy), bytes);
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Debug)]
pub struct LazySnapshot<'a> {
    content: Content<'a>,
    /// Whose pages may be given back, if it is a mapped file.
    file: Option<&'a Bytes>,
}

#[derive(Debug)]
enum Content<'a> {
    Whole(Box<Snapshot>),
    Left(Box<Left<'a>>),
}

/// All but the events, and how to find them.
#[derive(Debug)]
struct Left<'a> {
    head: Snapshot,
    traces: Vec<Trace>,
    /// If all entries of the file are in the traces, once and in their order.
    uses: Option<UseCounts>,
    bytes: &'a [u8],
    machine: RefCell<Machine<'a>>,
    /// Whether an event was something else when it was decoded again.
    is_changed: Cell<bool>,
}

/// The entries of one device.
#[derive(Debug, Default)]
pub(super) struct Trace {
    parts: Vec<Part>,
    n_entries: usize,
}

/// Entries of a trace that stand together.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// By their numbers among those of the file.
    Left(Range<u32>),
    /// One that the file has in another place or form.
    Kept(TraceEntry),
}

impl Part {
    fn len(&self) -> usize {
        match self {
            Part::Left(range) => range.len(),
            Part::Kept(_) => 1,
        }
    }
}

impl Trace {
    pub(super) fn push(&mut self, part: Part) {
        self.n_entries += part.len();
        self.parts.push(part);
    }
}

impl From<Snapshot> for LazySnapshot<'_> {
    /// One that is in memory as a whole, to go where others are.
    fn from(snapshot: Snapshot) -> Self {
        LazySnapshot { content: Content::Whole(Box::new(snapshot)), file: None }
    }
}

impl<'a> LazySnapshot<'a> {
    pub(in crate::pickle) fn read(bytes: &'a [u8], file: Option<&'a Bytes>) -> Result<LazySnapshot<'a>> {
        let content = match Left::read(bytes, file) {
            Some(left) => Content::Left(Box::new(left)),
            None => Content::Whole(Box::new(whole::read(bytes).0?)),
        };
        let lazy = LazySnapshot { content, file };
        lazy.forget();
        Ok(lazy)
    }

    /// Lets the kernel have the pages of the file back.
    fn forget(&self) {
        self.file.into_iter().for_each(Bytes::forget);
    }

    /// Whether the events stay in the file.
    #[cfg(test)]
    fn is_left(&self) -> bool {
        matches!(self.content, Content::Left(_))
    }
}

impl<'a> Left<'a> {
    /// `None` if the file is to be read as a whole, or not at all.
    fn read(bytes: &'a [u8], file: Option<&'a Bytes>) -> Option<Left<'a>> {
        whole::refusal(bytes).is_none().then_some(())?;
        let mut machine = Machine::leaving(bytes, file);
        let head = Self::head(&mut machine).ok()?;
        let traces = std::mem::take(&mut machine.made.traces);
        let uses = uses(&traces, &mut machine.road.entries);
        Some(Left { head, traces, uses, bytes, machine: RefCell::new(machine), is_changed: Cell::new(false) })
    }

    fn head(machine: &mut Machine<'a>) -> Step<Snapshot> {
        let top = machine.run()?;
        machine.close()?;
        machine.assemble(top)
    }

    fn look(&self, device: usize, range: Range<usize>, look: &mut dyn FnMut(&TraceEntry)) {
        let trace = &self.traces[device];
        let Ok(mut machine) = self.machine.try_borrow_mut() else {
            match Left::read(self.bytes, None) {
                Some(other) => other.look(device, range, look),
                None => self.is_changed.set(true),
            }
            return;
        };
        let mut first = 0;
        for part in &trace.parts {
            let end = first + part.len();
            let wanted = range.start.max(first)..range.end.min(end);
            if !wanted.is_empty() {
                let is_same = match part {
                    Part::Kept(entry) => {
                        look(entry);
                        true
                    }
                    Part::Left(numbers) => {
                        let number =
                            |at: usize| numbers.start + u32::try_from(at - first).unwrap_or(u32::MAX);
                        machine.again(number(wanted.start)..number(wanted.end), look)
                    }
                };
                if !is_same {
                    return self.is_changed.set(true);
                }
            }
            first = end;
        }
    }
}

/// What was counted while reading, if that is of the traces and of nothing else.
fn uses(traces: &[Trace], entries: &mut Entries) -> Option<UseCounts> {
    let Entries::Left(pieces) = entries else { return None };
    let mut next = 0;
    for part in traces.iter().flat_map(|trace| &trace.parts) {
        match part {
            Part::Left(numbers) if numbers.start == next => next = numbers.end,
            _ => return None,
        }
    }
    (next == pieces.len()).then(|| std::mem::take(&mut pieces.uses))
}

impl<'a> Machine<'a> {
    /// A machine that leaves entries in the file, and the file on the disk as far as it can.
    fn leaving(bytes: &'a [u8], file: Option<&'a Bytes>) -> Self {
        let mut machine = Machine::new(bytes, true);
        machine.road.entries = Entries::Left(Pieces::default());
        machine.rest = (REST_BYTES, file);
        machine
    }

    /// Whether entries stay in the file and are decoded there again.
    pub(super) fn leaves_entries(&self) -> bool {
        matches!(self.road.entries, Entries::Left(_))
    }

    /// Gives pages back in the middle of reading.
    #[cold]
    pub(super) fn rest_at(&mut self, pos: usize) {
        self.rest.0 = pos + REST_BYTES;
        self.rest.1.into_iter().for_each(Bytes::forget);
    }

    /// Ends the reading, so that entries can be decoded again with what every number stands for.
    fn close(&mut self) -> Step<()> {
        if self.memo.close() { Ok(()) } else { Err(Halt::Unusual) }
    }
}

impl SnapshotSource for LazySnapshot<'_> {
    fn head(&self) -> &Snapshot {
        match &self.content {
            Content::Whole(snapshot) => snapshot,
            Content::Left(left) => &left.head,
        }
    }

    fn n_traces(&self) -> usize {
        match &self.content {
            Content::Whole(snapshot) => snapshot.n_traces(),
            Content::Left(left) => left.traces.len(),
        }
    }

    fn for_each_entry(&self, device: usize, look: &mut dyn FnMut(&TraceEntry)) {
        self.for_each_entry_in(device, 0..usize::MAX, look);
    }

    fn n_entries(&self, device: usize) -> usize {
        match &self.content {
            Content::Whole(snapshot) => snapshot.n_entries(device),
            Content::Left(left) => left.traces[device].n_entries,
        }
    }

    fn for_each_entry_in(&self, device: usize, range: Range<usize>, look: &mut dyn FnMut(&TraceEntry)) {
        let left = match &self.content {
            Content::Whole(snapshot) => return snapshot.for_each_entry_in(device, range, look),
            Content::Left(left) => left,
        };
        let end = range.end.min(left.traces[device].n_entries);
        for from in (range.start..end).step_by(AT_ONCE) {
            left.look(device, from..end.min(from + AT_ONCE), look);
            self.forget();
        }
    }

    fn use_counts(&self) -> UseCounts {
        match &self.content {
            Content::Whole(snapshot) => snapshot.use_counts(),
            Content::Left(left) => left.uses.clone().unwrap_or_else(|| counted(self)),
        }
    }

    fn check(&self) -> io::Result<()> {
        match &self.content {
            Content::Left(left) if left.is_changed.get() => {
                Err(io::Error::other("the file was changed by somebody while it was being read"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
