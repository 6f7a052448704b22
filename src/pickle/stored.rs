//! A snapshot whose events stay in the file: read once for all else, and decoded again whenever they are looked at.

#![forbid(unsafe_code)]

use std::{
    cell::{Cell, RefCell},
    io,
    ops::Range,
};

use super::{
    file::Bytes,
    machine::{Machine, Step},
    pieces::{Entries, Pieces},
    read,
};
use crate::{
    error::Result,
    snapshot::{Document, Snapshot, TraceEntry, Uses, counted},
};

/// How many events are looked at before their bytes may leave the memory.
const AT_ONCE: usize = 1 << 18;

/// A snapshot file that was read without its events.
///
/// It takes memory for segments, frames and stacks, and none for the events of
/// devices: each look at them decodes the file again, at the pace of
/// [`load`](super::load). So it is made for few looks at large files, such as
/// those of [`write`](super::write) and of `rewrite`. What a file puts aside
/// under a number takes 16 bytes; memreel's own files put no event aside,
/// CPython's put every one. A file that is laid out in a way in which its
/// events cannot be found again is held as a whole.
///
/// A look from within a look reads the whole file first.
///
/// ```
/// use memreel::{pickle, snapshot::{Document, Snapshot}};
///
/// let bytes = pickle::to_vec(&Snapshot::default());
/// let stored = pickle::stored(&bytes)?;
/// assert_eq!(stored.n_events(), 0);
/// assert_eq!(pickle::to_vec(&stored), bytes);
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Debug)]
pub struct Stored<'a> {
    content: Content<'a>,
    /// Whose pages may be given back, if it is a mapped file.
    file: Option<&'a Bytes>,
}

#[derive(Debug)]
enum Content<'a> {
    Whole(Snapshot),
    Left(Box<Left<'a>>),
}

/// All but the events, and how to find them.
#[derive(Debug)]
struct Left<'a> {
    head: Snapshot,
    traces: Vec<Trace>,
    /// If all entries of the file are in the traces, once and in their order.
    uses: Option<Uses>,
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

impl From<Snapshot> for Stored<'_> {
    /// One that is in memory as a whole, to go where others are.
    fn from(snapshot: Snapshot) -> Self {
        Stored { content: Content::Whole(snapshot), file: None }
    }
}

impl<'a> Stored<'a> {
    pub(super) fn read(bytes: &'a [u8], file: Option<&'a Bytes>) -> Result<Stored<'a>> {
        let content = match Left::read(bytes) {
            Some(left) => Content::Left(Box::new(left)),
            None => Content::Whole(read::read(bytes).0?),
        };
        let stored = Stored { content, file };
        stored.forget();
        Ok(stored)
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
    fn read(bytes: &'a [u8]) -> Option<Left<'a>> {
        read::refusal(bytes).is_none().then_some(())?;
        let mut machine = Machine::new(bytes, true);
        machine.is_read_again = true;
        machine.road.entries = Entries::Left(Pieces::default());
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
            match Left::read(self.bytes) {
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
fn uses(traces: &[Trace], entries: &mut Entries) -> Option<Uses> {
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

impl Document for Stored<'_> {
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

    fn uses(&self) -> Uses {
        match &self.content {
            Content::Whole(snapshot) => snapshot.uses(),
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
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::pickle;

    fn fixtures() -> Vec<(String, Vec<u8>)> {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let folders = ["synthetic", "torch-2.11/snapshots"].map(|folder| fs::read_dir(fixtures.join(folder)));
        let paths = folders.into_iter().flat_map(|folder| folder.unwrap()).map(|entry| entry.unwrap().path());
        paths.map(|path| (path.display().to_string(), fs::read(path).unwrap())).collect()
    }

    /// What both ways of reading make of the bytes: the file written anew, or why not.
    fn both(bytes: &[u8]) -> [std::result::Result<Vec<u8>, String>; 2] {
        let whole = pickle::from_slice(bytes).map(|snapshot| pickle::to_vec(&snapshot));
        let stored = pickle::stored(bytes).map(|stored| pickle::to_vec(&stored));
        [whole, stored].map(|bytes| bytes.map_err(|error| error.to_string()))
    }

    #[test]
    fn events_left_in_the_file_are_those_that_are_loaded() {
        let mut n_left = 0;
        for (name, bytes) in fixtures() {
            let whole = pickle::from_slice(&bytes).unwrap();
            let stored = pickle::stored(&bytes).unwrap();
            n_left += usize::from(stored.is_left());
            assert_eq!(stored.n_events(), whole.n_events(), "{name}");
            let again = stored.to_snapshot().unwrap();
            assert!(again.device_traces == whole.device_traces, "{name}: entries with other numbers");
            assert!(
                serde_json::to_string(&again).unwrap() == serde_json::to_string(&whole).unwrap(),
                "{name}"
            );
            let [whole, stored] = both(&bytes);
            assert!(whole == stored, "{name}: other bytes");
        }
        assert!(n_left > 25, "only {n_left} files were read without their events");
    }

    #[test]
    fn changed_files_give_the_same_either_way() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut below = |limit: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            usize::try_from(seed % limit as u64).unwrap()
        };
        let mut n_read = 0;
        for (name, original) in fixtures().into_iter().filter(|(_, bytes)| bytes.len() < 8192) {
            for n in 0..300 {
                let mut bytes = original.clone();
                let at = below(bytes.len());
                bytes[at] =
                    if n % 2 == 0 { original[below(original.len())] } else { bytes[at] ^ 1 << below(8) };
                let [whole, stored] = both(&bytes);
                assert!(whole == stored, "{name}: byte {at} became {:#x}: {whole:?} {stored:?}", bytes[at]);
                n_read += usize::from(whole.is_ok());
            }
        }
        assert!(n_read > 1000, "only {n_read} changed files could be read");
    }

    #[test]
    fn a_range_of_events_is_cut_from_all_of_them() {
        for (name, bytes) in fixtures() {
            let stored = pickle::stored(&bytes).unwrap();
            for device in 0..stored.n_traces() {
                let mut all = Vec::new();
                stored.for_each_entry(device, &mut |entry| all.push(*entry));
                for (from, to) in [(0, 1), (1, 7), (5, 5), (3, usize::MAX), (usize::MAX - 1, usize::MAX)] {
                    let mut some = Vec::new();
                    stored.for_each_entry_in(device, from..to, &mut |entry| some.push(*entry));
                    let expected = all.iter().skip(from).take(to - from).copied().collect::<Vec<_>>();
                    assert!(some == expected, "{name}: {from}..{to}");
                }
            }
        }
    }

    #[test]
    fn a_look_from_within_a_look_sees_the_same() {
        let (_, bytes) = fixtures().into_iter().find(|(name, _)| name.ends_with("valid.pickle")).unwrap();
        let stored = pickle::stored(&bytes).unwrap();
        assert!(stored.is_left());
        let (mut n_outside, mut n_inside) = (0, 0);
        stored.for_each_entry(0, &mut |_| {
            n_outside += 1;
            stored.for_each_entry(0, &mut |_| n_inside += 1);
        });
        assert!(n_outside > 0 && n_inside == n_outside * n_outside);
        assert!(stored.check().is_ok());
    }

    /// A list of dictionaries under an unknown key, which the next entry has for its frames.
    #[test]
    fn what_turns_out_to_be_a_stack_was_a_value_before() {
        let bytes = [
            b"\x80\x04}(\x8c\x0ddevice_traces](](".to_vec(),
            b"}(\x8c\x06actionq\x00\x8c\x05allocq\x01\x8c\x06framesq\x02](}(\x8c\x04nameq\x03\x8c\x01aueq\x0au"
                .to_vec(),
            b"}(h\x00h\x01\x8c\x01xq\x04](}(h\x03\x8c\x01bueq\x0bu".to_vec(),
            b"}(h\x00h\x01h\x04h\x0bu}(h\x00h\x01h\x04h\x0bu".to_vec(),
            b"}(h\x00h\x01h\x02h\x0bu}(h\x00h\x01h\x02h\x0bu".to_vec(),
            b"}(h\x00h\x01h\x04h\x0bu".to_vec(),
            b"eeu.".to_vec(),
        ]
        .concat();
        let [whole, stored] = both(&bytes);
        assert_eq!(whole.as_ref().unwrap(), stored.as_ref().unwrap());
        assert!(pickle::stored(&bytes).unwrap().is_left());
    }

    #[test]
    fn a_number_given_twice_makes_it_hold_all() {
        let entry = |frames: &[u8]| [b"}(h\x00h\x01h\x02](".as_slice(), frames, b"eu"].concat();
        let bytes = [
            b"\x80\x04}(\x8c\x0ddevice_traces](](".to_vec(),
            b"}(\x8c\x06actionq\x00\x8c\x05allocq\x01\x8c\x06framesq\x02]u".to_vec(),
            entry(b"}(\x8c\x04name\x8c\x01auq\x0a"),
            entry(b"h\x0a"),
            entry(b"}(\x8c\x04name\x8c\x01buq\x0a"),
            entry(b"h\x0a"),
            b"eeu.".to_vec(),
        ]
        .concat();
        let [whole, stored] = both(&bytes);
        assert_eq!(whole.unwrap(), stored.unwrap());
        assert!(!pickle::stored(&bytes).unwrap().is_left());
    }

    /// Bytes that become others under the map are no panic and no silence.
    #[cfg(unix)]
    #[test]
    fn a_file_that_changes_is_told() {
        use std::{io::Write, os::unix::fs::FileExt};

        let mut snapshot = Snapshot::default();
        let keys = [("action", crate::snapshot::Field::Action), ("addr", crate::snapshot::Field::Addr)];
        let shape = snapshot.shapes.intern(crate::snapshot::Shape::of(&keys));
        let action = Some(crate::event::Action::Alloc);
        let entry = |address| TraceEntry { address, shape, action, ..TraceEntry::default() };
        snapshot.device_traces = vec![(0..200_000).map(entry).collect()];
        snapshot
            .shape
            .set("device_traces".into(), crate::snapshot::Slot::Field(crate::snapshot::Field::DeviceTraces));
        let bytes = pickle::to_vec(&snapshot);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        let open = pickle::open(file.path()).unwrap();
        assert!(matches!(open.0, Bytes::Mapped(_)), "{} bytes", bytes.len());
        let stored = open.stored().unwrap();
        assert_eq!(pickle::to_vec(&stored), bytes);
        file.as_file().write_all_at(&[0; 100], bytes.len() as u64 / 2).unwrap();
        assert!(pickle::write(&stored, io::sink()).unwrap_err().to_string().contains("was changed"));
        assert!(stored.to_snapshot().is_err());
    }
}
