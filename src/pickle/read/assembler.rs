//! Containers become records: the one place that knows where in a file which record stands.

#![forbid(unsafe_code)]

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    entry_spans::Entries,
    lazy::{Part, Trace},
    node::{Item, Key, Kind, NodeId, TextId},
    parser::{Halt, Machine, Step},
};
use crate::{
    error::Error,
    snapshot::{
        Annotation, AnnotationFields, Block, BlockFields, Builder, EntryFields, Field, FrameIndex, Segment,
        SegmentFields, Slot, Snapshot, StackIndex, Text, TopLevel, TraceEntry, Value,
    },
};

/// Keys of one record; PyTorch writes 12 at most. Each is compared with each.
const MAX_RECORD_KEYS: usize = 256;

/// What a record counts for if it stands in the file more than once, in values.
const SHARED_RECORD_WEIGHT: u64 = 64;

/// What has been made of containers so far.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) frames: FxHashMap<NodeId, Option<FrameIndex>>,
    pub(super) stacks: FxHashMap<NodeId, Option<StackIndex>>,
    pub(super) values: FxHashMap<NodeId, Value>,
    pub(super) stack_values: FxHashMap<StackIndex, Value>,
    /// Lists of records already walked.
    pub(super) lists: FxHashSet<NodeId>,
    /// Entries of the fast road already placed in a trace.
    pub(super) placed: Vec<bool>,
    /// Where the entries of each device stand, if they are left in the file.
    pub(super) traces: Vec<Trace>,
    /// Values that stand in the file once and in the snapshot again.
    pub(super) n_repeated: u64,
}

impl Machine<'_> {
    /// The snapshot that the file's value is.
    pub(super) fn assemble(&mut self, top: Item) -> Step<Snapshot> {
        match top {
            Item::Node(id) if self.nodes.get(id).kind == Kind::List => {
                self.snapshot.top_level = TopLevel::SegmentList;
                self.snapshot.segments = self.segments(id, "")?;
            }
            Item::Node(id) if self.nodes.get(id).kind == Kind::Dict => self.top(id)?,
            _ => {
                let what =
                    "the file holds neither a dict, as _dump_snapshot writes it, nor a list of segments";
                return Err(Error::malformed(self.pos as u64 - 1, what).into());
            }
        }
        self.snapshot.complete_blocks();
        let snapshot = std::mem::take(&mut self.snapshot).unless_foreign();
        Ok(snapshot.map_err(Error::foreign)?)
    }

    fn top(&mut self, id: NodeId) -> Step<()> {
        for (key, item) in self.record_pairs(id)? {
            let name = self.words.get(key).text.clone();
            let slot = match self.table(&name, item)? {
                Some(field) => Slot::Field(field),
                None => Slot::Value(self.value(item)?),
            };
            self.snapshot.shape.slots.push((name, slot));
        }
        Ok(())
    }

    /// Takes one of the lists that make a snapshot.
    fn table(&mut self, name: &str, item: Item) -> Step<Option<Field>> {
        let Some(list) = self.list(item) else { return Ok(None) };
        Ok(Some(match name {
            "segments" => {
                self.snapshot.segments = self.segments(list, "segments")?;
                Field::Segments
            }
            "host_segments" => {
                self.snapshot.host_segments = self.segments(list, "host_segments")?;
                Field::HostSegments
            }
            "device_traces" => {
                let lists: Option<Vec<_>> =
                    self.nodes.get(list).items.iter().map(|trace| self.list(*trace)).collect();
                let Some(lists) = lists else { return Ok(None) };
                let lists = lists.into_iter().enumerate();
                let named = lists.map(|(device, trace)| (trace, format!("device_traces[{device}]")));
                if self.leaves_entries() {
                    let traces = named.map(|(trace, name)| self.places(trace, &name));
                    self.made.traces = traces.collect::<Result<_, _>>()?;
                } else {
                    let traces = named.map(|(trace, name)| self.entries(trace, &name));
                    self.snapshot.device_traces = traces.collect::<Result<_, _>>()?;
                }
                Field::DeviceTraces
            }
            "host_traces" => {
                self.snapshot.host_traces = self.entries(list, "host_traces")?;
                Field::HostTraces
            }
            "external_annotations" => {
                self.snapshot.external_annotations = self.annotations(list)?;
                Field::ExternalAnnotations
            }
            _ => return Ok(None),
        }))
    }

    fn list(&self, item: Item) -> Option<NodeId> {
        let Item::Node(id) = item else { return None };
        (self.nodes.get(id).kind == Kind::List).then_some(id)
    }

    /// The elements of a list of records. Its memory is given up, unless it stands here again.
    fn elements(&mut self, list: NodeId) -> Step<Vec<Item>> {
        let items = self.nodes.get(list).items.clone();
        if !self.made.lists.insert(list) {
            let n_records =
                |item: &Item| if let Item::Entries(from, to) = item { u64::from(to - from) } else { 1 };
            self.repeat(
                items.iter().map(n_records).sum::<u64>() * SHARED_RECORD_WEIGHT,
                self.nodes.get(list).offset,
            )?;
        }
        Ok(items)
    }

    fn segments(&mut self, list: NodeId, name: &str) -> Step<Vec<Segment>> {
        let items = self.elements(list)?;
        let build = |(at, item)| self.segment(item, list, &format!("{name}[{at}]"));
        items.into_iter().enumerate().map(build).collect()
    }

    fn segment(&mut self, item: Item, list: NodeId, place: &str) -> Step<Segment> {
        let id = self.record(item, list, place)?;
        let mut builder = Builder::<SegmentFields>::default();
        for (key, item) in self.record_pairs(id)? {
            let name = self.words.get(key).text.clone();
            if &*name == "blocks"
                && let Some(list) = self.list(item)
            {
                builder.set_blocks(&name, self.blocks(list, place)?);
            } else if let Some(stack) = self.frames_field(&name, item) {
                builder.set_stack(&name, stack);
            } else {
                builder.set(&name, self.value(item)?);
            }
        }
        Ok(builder.finish(&mut self.snapshot.shapes))
    }

    fn blocks(&mut self, list: NodeId, segment: &str) -> Step<Vec<Block>> {
        let items = self.elements(list)?;
        let build = |(at, item)| self.block(item, list, &|| format!("{segment}.blocks[{at}]"));
        items.into_iter().enumerate().map(build).collect()
    }

    fn block(&mut self, item: Item, list: NodeId, place: &dyn Fn() -> String) -> Step<Block> {
        let id = self.record_at(item, list, place)?;
        let mut builder = Builder::<BlockFields>::default();
        for (key, item) in self.record_pairs(id)? {
            let name = self.words.get(key).text.clone();
            match self.frames_field(&name, item) {
                Some(stack) => builder.set_stack(&name, stack),
                None => builder.set(&name, self.value(item)?),
            }
        }
        Ok(builder.finish(&mut self.snapshot.shapes))
    }

    fn entries(&mut self, list: NodeId, trace: &str) -> Step<Vec<TraceEntry>> {
        let items = self.elements(list)?;
        let mut entries = Vec::new();
        for item in items {
            if let Item::Entries(from, to) = item {
                self.place(from, to, entries.len(), trace)?;
                self.take_entries(from, to, &mut entries)?;
            } else {
                entries.push(self.trace_entry(item, list, &|| format!("{trace}[{}]", entries.len()))?);
            }
        }
        Ok(entries)
    }

    fn take_entries(&mut self, from: u32, to: u32, entries: &mut Vec<TraceEntry>) -> Step<()> {
        match &mut self.road.entries {
            // The last trace, which is often the only one, takes the entries as they are.
            Entries::Held(all) if entries.is_empty() && to as usize == all.len() => {
                *entries = if from == 0 { std::mem::take(all) } else { all.split_off(from as usize) };
            }
            Entries::Held(all) => entries.extend_from_slice(&all[from as usize..to as usize]),
            Entries::Left(_) => {
                let is_same = self.again(from..to, &mut |entry| entries.push(*entry));
                return if is_same { Ok(()) } else { Err(Halt::Unusual) };
            }
        }
        Ok(())
    }

    /// Where the entries of a trace stand that are left in the file.
    fn places(&mut self, list: NodeId, name: &str) -> Step<Trace> {
        let mut trace = Trace::default();
        for (at, item) in self.elements(list)?.into_iter().enumerate() {
            trace.push(match item {
                Item::Entries(from, to) => Part::Left(from..to),
                item => Part::Kept(self.trace_entry(item, list, &|| format!("{name}[{at}]"))?),
            });
        }
        Ok(trace)
    }

    /// Marks entries of the fast road as standing in a trace; tells those that stand in one already.
    fn place(&mut self, from: u32, to: u32, at: usize, trace: &str) -> Step<()> {
        let placed = &mut self.made.placed;
        if placed.len() < to as usize {
            placed.resize(to as usize, false);
        }
        // What a trace took with it is gone; the general road will find it.
        if to > self.road.entries.len() {
            return Err(Halt::Unusual);
        }
        for (n, placed) in placed[from as usize..to as usize].iter_mut().enumerate() {
            if std::mem::replace(placed, true) {
                self.findings.shared_record(&format!("{trace}[{}]", at + n));
            }
        }
        Ok(())
    }

    fn trace_entry(&mut self, item: Item, list: NodeId, place: &dyn Fn() -> String) -> Step<TraceEntry> {
        let id = self.record_at(item, list, place)?;
        self.built_entry(id)
    }

    fn built_entry(&mut self, id: NodeId) -> Step<TraceEntry> {
        let mut builder = Builder::<EntryFields>::default();
        for (key, item) in self.record_pairs(id)? {
            let name = self.words.get(key).text.clone();
            match self.frames_field(&name, item) {
                Some(stack) => builder.set_stack(&name, stack),
                None => builder.set(&name, self.value(item)?),
            }
        }
        Ok(builder.finish(&mut self.snapshot.shapes))
    }

    /// Takes an entry that the general machine has just built on to the fast
    /// road, so that a trace stays in one piece.
    pub(super) fn entry_ends(&mut self, id: NodeId) {
        let node = self.nodes.get(id);
        let is_entry =
            matches!(node.items.first(), Some(Item::Text(key)) if self.words.get(*key).key == Key::Action);
        if !is_entry {
            return;
        }
        if let Ok(entry) = self.built_entry(id) {
            let node = self.nodes.get_mut(id);
            (node.is_record, node.is_frozen) = (true, true);
            if let Some(top) = self.stack.last_mut() {
                *top = Item::Entry(self.road.entries.len());
            }
            self.road.entries.keep(entry);
        }
    }

    fn annotations(&mut self, list: NodeId) -> Step<Vec<Annotation>> {
        let items = self.elements(list)?;
        let build = |(at, item)| self.annotation(item, list, &format!("external_annotations[{at}]"));
        items.into_iter().enumerate().map(build).collect()
    }

    fn annotation(&mut self, item: Item, list: NodeId, place: &str) -> Step<Annotation> {
        let id = match item {
            Item::Node(id) if self.nodes.get(id).kind == Kind::Dict => id,
            Item::Entry(_) | Item::Entries(..) => return Err(Halt::Unusual),
            _ => return Err(self.no_record(list, place)),
        };
        let mut builder = Builder::<AnnotationFields>::default();
        for (key, item) in self.record_pairs(id)? {
            let name = self.words.get(key).text.clone();
            builder.set(&name, self.value(item)?);
        }
        Ok(builder.finish(&mut self.snapshot.shapes))
    }

    fn frames_field(&mut self, name: &Text, item: Item) -> Option<StackIndex> {
        if &**name != "frames" {
            return None;
        }
        match item {
            Item::Stack(stack) => Some(stack),
            Item::Node(list) => self.stack_of(list),
            _ => None,
        }
    }

    fn record(&mut self, item: Item, list: NodeId, place: &str) -> Step<NodeId> {
        self.record_at(item, list, &|| place.to_string())
    }

    /// The dictionary that a record is made of; tells if it was one before.
    fn record_at(&mut self, item: Item, list: NodeId, place: &dyn Fn() -> String) -> Step<NodeId> {
        let id = match item {
            Item::Node(id) if self.nodes.get(id).kind == Kind::Dict => id,
            // An entry stands where a segment or a block should: the general road makes what it can of it.
            Item::Entry(_) | Item::Entries(..) => return Err(Halt::Unusual),
            _ => return Err(self.no_record(list, &place())),
        };
        if std::mem::replace(&mut self.nodes.get_mut(id).is_record, true) {
            self.findings.shared_record(&place());
            // Two bytes of the file, but every key is looked at again.
            let node = self.nodes.get(id);
            let (n_items, offset) = (node.items.len() as u64, node.offset);
            self.repeat(n_items * n_items, offset)?;
        }
        Ok(id)
    }

    fn no_record(&self, list: NodeId, place: &str) -> Halt {
        let what = format!("{place} is no dict");
        Error::malformed(self.nodes.get(list).offset, what).into()
    }

    /// The pairs of a record: keys are texts, the last value of a key wins and its first place stays.
    pub(super) fn record_pairs(&self, id: NodeId) -> Step<Vec<(TextId, Item)>> {
        let node = self.nodes.get(id);
        let mut pairs: Vec<(TextId, Item)> = Vec::with_capacity(node.items.len() / 2);
        for pair in node.items.chunks_exact(2) {
            let Item::Text(key) = pair[0] else {
                return Err(Error::malformed(node.offset, "a record has a key that is no text").into());
            };
            match pairs.iter().position(|(other, _)| *other == key) {
                Some(at) => pairs[at].1 = pair[1],
                None if pairs.len() == MAX_RECORD_KEYS => {
                    let what = format!("a record has more than {MAX_RECORD_KEYS} keys");
                    return Err(Error::malformed(node.offset, what).into());
                }
                None => pairs.push((key, pair[1])),
            }
        }
        Ok(pairs)
    }
}
