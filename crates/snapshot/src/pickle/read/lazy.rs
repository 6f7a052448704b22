//! A snapshot whose events remain in the file: everything else is read once, and events are decoded whenever they are
//! visited.

#![forbid(unsafe_code)]

use std::{
    cell::{Cell, RefCell},
    io,
    ops::Range,
};

use super::{
    entry_spans::Entries,
    failure::{Attempt, Failure},
    lazy_trace::{LazyTrace, Section},
    reader::{Means, Reader},
    whole,
};
use crate::{
    model::{Snapshot, SnapshotSource, TraceEntry, UseCounts, counted},
    pickle::file::Bytes,
    words::{DeviceId, Result},
};

/// The number of events that are visited before their bytes may leave the memory.
const N_AT_ONCE: usize = 1 << 17;

/// A snapshot file that was read without its events.
///
/// It takes memory for segments, frames and stacks, and none for the events of
/// devices: each visit decodes the file again, as fast as
/// [`load`](crate::pickle::load) does. It is therefore meant for few visits to
/// large files, such as those of [`write`](crate::pickle::write()) and of
/// `rewrite`. Each value that a file memoizes takes 8 bytes; memreel's own
/// files memoize no event, CPython's memoize every event. A file whose layout
/// does not allow finding its events again is held in memory as a whole.
///
/// A visit within a visit reads the whole file first.
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
    /// The mapped file, whose pages may be given back.
    file: Option<&'a Bytes>,
}

#[derive(Debug)]
enum Content<'a> {
    InMemory(Box<Snapshot>),
    InFile(Box<InFile<'a>>),
}

/// Everything except the events, and how to decode these.
#[derive(Debug)]
struct InFile<'a> {
    head: Snapshot,
    traces: Vec<LazyTrace>,
    /// Counted while reading, if the traces have all entries of the file, once and in order.
    use_counts: Option<UseCounts>,
    bytes: &'a [u8],
    reader: RefCell<Reader<'a>>,
    /// Whether an event had changed when it was decoded again.
    is_changed: Cell<bool>,
}

impl From<Snapshot> for LazySnapshot<'_> {
    /// Wraps a snapshot in memory, for code that takes lazy ones.
    fn from(snapshot: Snapshot) -> Self {
        LazySnapshot { content: Content::InMemory(Box::new(snapshot)), file: None }
    }
}

impl<'a> LazySnapshot<'a> {
    pub(in crate::pickle) fn read(bytes: &'a [u8], file: Option<&'a Bytes>) -> Result<LazySnapshot<'a>> {
        let content = match InFile::read(bytes, file) {
            Ok(in_file) => Content::InFile(Box::new(in_file)),
            Err(Failure::Fallback) => {
                Content::InMemory(Box::new(whole::read(bytes, Means { file, watch: None }).0?))
            }
            Err(Failure::Malformed(error)) => return Err(whole::error(bytes, error)),
        };
        let lazy = LazySnapshot { content, file };
        lazy.forget();
        Ok(lazy)
    }

    /// Returns the pages of the file to the kernel.
    fn forget(&self) {
        self.file.into_iter().for_each(Bytes::forget);
    }

    /// Returns whether the events are read from the file each time; otherwise the whole snapshot is in memory.
    pub fn is_in_file(&self) -> bool {
        matches!(self.content, Content::InFile(_))
    }
}

impl<'a> InFile<'a> {
    /// Fails with [`Failure::Fallback`] if the file must be read as a whole.
    fn read(bytes: &'a [u8], file: Option<&'a Bytes>) -> Attempt<InFile<'a>> {
        if let Some(error) = whole::refusal(bytes.len() as u64) {
            return Err(error.into());
        }
        let mut reader = Reader::lazy(bytes, file);
        let (head, traces) = reader.read_lazily()?;
        let use_counts = use_counts(&traces, reader.entries_mut());
        let (reader, is_changed) = (RefCell::new(reader), Cell::new(false));
        Ok(InFile { head, traces, use_counts, bytes, reader, is_changed })
    }

    fn visit(&self, device: DeviceId, range: Range<usize>, look: &mut dyn FnMut(&TraceEntry)) {
        let Ok(mut reader) = self.reader.try_borrow_mut() else {
            match InFile::read(self.bytes, None) {
                Ok(other) => other.visit(device, range, look),
                Err(_) => self.is_changed.set(true),
            }
            return;
        };
        let mut first = 0;
        for section in device.get_in(&self.traces).into_iter().flat_map(LazyTrace::sections) {
            let end = first + section.len();
            let wanted = range.start.max(first)..range.end.min(end);
            if !wanted.is_empty() {
                let is_same = match section {
                    Section::InMemory(entry) => {
                        look(entry);
                        true
                    }
                    Section::InFile(numbers) => {
                        let number =
                            |at: usize| numbers.start + u32::try_from(at - first).unwrap_or(u32::MAX);
                        reader.decode_again(number(wanted.start)..number(wanted.end), look)
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

/// Returns what was counted while reading, if the entries counted are those of the traces.
fn use_counts(traces: &[LazyTrace], entries: &mut Entries) -> Option<UseCounts> {
    let Entries::InFile(spans) = entries else { return None };
    let mut next = 0;
    for section in traces.iter().flat_map(LazyTrace::sections) {
        match section {
            Section::InFile(numbers) if numbers.start == next => next = numbers.end,
            _ => return None,
        }
    }
    (next == spans.len()).then(|| std::mem::take(&mut spans.use_counts))
}

impl SnapshotSource for LazySnapshot<'_> {
    fn head(&self) -> &Snapshot {
        match &self.content {
            Content::InMemory(snapshot) => snapshot,
            Content::InFile(in_file) => &in_file.head,
        }
    }

    fn n_traces(&self) -> usize {
        match &self.content {
            Content::InMemory(snapshot) => snapshot.n_traces(),
            Content::InFile(in_file) => in_file.traces.len(),
        }
    }

    fn for_each_entry(&self, device: DeviceId, look: &mut dyn FnMut(&TraceEntry)) {
        self.for_each_entry_in(device, 0..usize::MAX, look);
    }

    fn n_entries(&self, device: DeviceId) -> usize {
        match &self.content {
            Content::InMemory(snapshot) => snapshot.n_entries(device),
            Content::InFile(in_file) => device.get_in(&in_file.traces).map_or(0, LazyTrace::n_entries),
        }
    }

    fn for_each_entry_in(&self, device: DeviceId, range: Range<usize>, look: &mut dyn FnMut(&TraceEntry)) {
        let in_file = match &self.content {
            Content::InMemory(snapshot) => return snapshot.for_each_entry_in(device, range, look),
            Content::InFile(in_file) => in_file,
        };
        let Some(trace) = device.get_in(&in_file.traces) else { return };
        let end = range.end.min(trace.n_entries());
        for from in (range.start..end).step_by(N_AT_ONCE) {
            in_file.visit(device, from..end.min(from + N_AT_ONCE), look);
            self.forget();
        }
    }

    fn use_counts(&self) -> UseCounts {
        match &self.content {
            Content::InMemory(snapshot) => snapshot.use_counts(),
            Content::InFile(in_file) => in_file.use_counts.clone().unwrap_or_else(|| counted(self)),
        }
    }

    fn check(&self) -> io::Result<()> {
        match &self.content {
            Content::InFile(in_file) if in_file.is_changed.get() => {
                Err(io::Error::other("the file was changed while it was being read"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
