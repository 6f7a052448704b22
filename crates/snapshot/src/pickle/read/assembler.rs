//! Assembles containers into the records of a snapshot. Only this file knows which record is where.

#![forbid(unsafe_code)]

use super::{
    entry_decoder::EntryDecoder,
    entry_spans::Entries,
    failure::{Attempt, Failure},
    interner::{Interner, take_pairs},
    lazy_trace::{LazyTrace, Section},
    node::{Item, Kind, NodeId},
    parser::Parser,
};
use crate::{
    model::{Annotation, Block, Builder, Field, Segment, Slot, Snapshot, TopLevel, TraceEntry, schema},
    words::{Error, SeededSet},
};

/// The weight of a record that the file uses more than once, in values.
const SHARED_RECORD_WEIGHT: u64 = 64;

/// How often the memory of other records is checked.
const CHECKED_RECORDS: usize = 1 << 12;

/// How often the memory of a trace is checked, in entries.
const CHECKED_ENTRIES: usize = 1 << 16;

/// A snapshot while it is assembled from what the parser and the decoder have read.
#[derive(Debug)]
pub(super) struct Assembler<'r, 'a> {
    parser: &'r mut Parser<'a>,
    interner: &'r mut Interner,
    decoder: &'r mut EntryDecoder<'a>,
    snapshot: Snapshot,
    /// The traces of devices, if their entries stay in the file.
    traces: Vec<LazyTrace>,
    /// Lists of records that were assembled before.
    lists: SeededSet<NodeId>,
    /// Of each entry that the fast path decoded: whether it is in a trace.
    is_placed: Vec<bool>,
    /// The number of segments, blocks, annotations and entries that were assembled from dictionaries.
    n_records: usize,
}

impl<'r, 'a> Assembler<'r, 'a> {
    /// Starts with nothing; the keys come from the file.
    pub(super) fn new(
        parser: &'r mut Parser<'a>,
        interner: &'r mut Interner,
        decoder: &'r mut EntryDecoder<'a>,
    ) -> Self {
        let snapshot = Snapshot::without_keys();
        let (traces, lists, is_placed) = (Vec::new(), SeededSet::default(), Vec::new());
        Assembler { parser, interner, decoder, snapshot, traces, lists, is_placed, n_records: 0 }
    }

    /// Returns the snapshot in the file's value, and the traces whose entries remain in the file.
    pub(super) fn assemble(mut self, top: Item) -> Attempt<(Snapshot, Vec<LazyTrace>)> {
        match top {
            Item::Node(id) if self.parser.nodes.get(id).kind == Kind::List => {
                self.snapshot.top_level = TopLevel::SegmentList;
                self.snapshot.segments = self.segments(id, "")?;
            }
            Item::Node(id) if self.parser.nodes.get(id).kind == Kind::Dict => self.top_level(id)?,
            Item::Frame(_) | Item::Stack(_) | Item::Entry(_) => return Err(Failure::Fallback),
            _ => {
                let what =
                    "the file holds neither a dict, as _dump_snapshot writes it, nor a list of segments";
                return Err(Error::malformed(self.parser.input.pos() as u64 - 1, what).into());
            }
        }
        self.snapshot.stacks = std::mem::take(&mut self.interner.stacks);
        self.snapshot.shapes = std::mem::take(&mut self.interner.shapes);
        self.snapshot.complete_blocks();
        Ok((self.snapshot.unless_foreign().map_err(Error::foreign)?, self.traces))
    }

    fn top_level(&mut self, id: NodeId) -> Attempt<()> {
        for (key, item) in take_pairs(id, self.parser)? {
            let name = self.parser.words.get(key).text.clone();
            let slot = match self.table(&name, item)? {
                Some(field) => Slot::Field(field),
                None => Slot::Value(self.interner.value(item, self.parser)?),
            };
            self.snapshot.shape.slots.push((name, slot));
        }
        Ok(())
    }

    /// Assembles one of the lists of a snapshot, if this is its key and a list.
    fn table(&mut self, name: &str, item: Item) -> Attempt<Option<Field>> {
        if schema::field_of(schema::SNAPSHOT, name).is_none() {
            return Ok(None);
        }
        let Some(list) = self.list(item)? else { return Ok(None) };
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
                let items = self.parser.nodes.get(list).items.iter();
                let lists = items.map(|trace| self.list(*trace)).collect::<Attempt<Option<Vec<_>>>>()?;
                let Some(lists) = lists else { return Ok(None) };
                self.device_traces(&lists)?;
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

    /// Returns the list of records in an item, if it is a list.
    fn list(&self, item: Item) -> Attempt<Option<NodeId>> {
        match item {
            Item::Node(id) => Ok((self.parser.nodes.get(id).kind == Kind::List).then_some(id)),
            // Frames where other records should be: the slow path decides.
            Item::Stack(_) => Err(Failure::Fallback),
            _ => Ok(None),
        }
    }

    /// Returns the elements of a list of records.
    fn elements(&mut self, list: NodeId) -> Attempt<Vec<Item>> {
        if self.parser.nodes.is_single(list) {
            return Ok(self.parser.nodes.take(list));
        }
        let node = self.parser.nodes.get(list);
        let (items, offset) = (node.items.clone(), node.offset.into());
        if !self.lists.insert(list) {
            let n_records = |item: &Item| match item {
                Item::Entries(at) => {
                    let (from, to) = self.parser.nodes.range(*at);
                    u64::from(to - from)
                }
                _ => 1,
            };
            let n_values = items.iter().map(n_records).sum::<u64>() * SHARED_RECORD_WEIGHT;
            self.interner.values.repeat(n_values, offset, self.parser)?;
        }
        Ok(items)
    }

    fn segments(&mut self, list: NodeId, name: &str) -> Attempt<Vec<Segment>> {
        let items = self.elements(list)?;
        let segment = |(at, item)| self.segment(item, list, &format!("{name}[{at}]"));
        items.into_iter().enumerate().map(segment).collect()
    }

    fn segment(&mut self, item: Item, list: NodeId, place: &str) -> Attempt<Segment> {
        let id = self.record(item, list, &|| place.to_owned())?;
        let mut builder = Builder::<Segment>::default();
        for (key, item) in take_pairs(id, self.parser)? {
            let name = self.parser.words.get(key).text.clone();
            if &*name == "blocks"
                && let Some(list) = self.list(item)?
            {
                builder.set_blocks(&name, self.blocks(list, place)?);
            } else if let Some(stack) = self.interner.stack_field(&name, item, self.parser) {
                builder.set_stack(&name, stack);
            } else {
                builder.set(&name, self.interner.value(item, self.parser)?);
            }
        }
        Ok(builder.finish(&mut self.interner.shapes))
    }

    fn blocks(&mut self, list: NodeId, segment: &str) -> Attempt<Vec<Block>> {
        let items = self.elements(list)?;
        let block = |(at, item)| self.block(item, list, &|| format!("{segment}.blocks[{at}]"));
        items.into_iter().enumerate().map(block).collect()
    }

    fn block(&mut self, item: Item, list: NodeId, place: &dyn Fn() -> String) -> Attempt<Block> {
        let id = self.record(item, list, place)?;
        let mut builder = Builder::<Block>::default();
        for (key, item) in take_pairs(id, self.parser)? {
            let name = self.parser.words.get(key).text.clone();
            match self.interner.stack_field(&name, item, self.parser) {
                Some(stack) => builder.set_stack(&name, stack),
                None => builder.set(&name, self.interner.value(item, self.parser)?),
            }
        }
        Ok(builder.finish(&mut self.interner.shapes))
    }

    fn device_traces(&mut self, lists: &[NodeId]) -> Attempt<()> {
        for (device, list) in lists.iter().enumerate() {
            let name = format!("device_traces[{device}]");
            if self.decoder.is_lazy() {
                let trace = self.lazy_trace(*list, &name)?;
                self.traces.push(trace);
            } else {
                let trace = self.entries(*list, &name)?;
                self.snapshot.device_traces.push(trace);
            }
        }
        Ok(())
    }

    fn entries(&mut self, list: NodeId, trace: &str) -> Attempt<Vec<TraceEntry>> {
        let (mut entries, mut n_checked) = (Vec::new(), CHECKED_ENTRIES);
        let offset = self.parser.input.pos();
        for item in self.elements(list)? {
            // A file can use an entry again for two bytes.
            if entries.len() >= n_checked {
                n_checked = entries.len() + CHECKED_ENTRIES;
                self.parser.check_memory(entries.len() * size_of::<TraceEntry>(), offset)?;
            }
            if let Item::Entries(at) = item {
                let (from, to) = self.parser.nodes.range(at);
                self.place(from, to, entries.len(), trace)?;
                self.take_entries(from, to, &mut entries)?;
            } else {
                let id = self.record(item, list, &|| format!("{trace}[{}]", entries.len()))?;
                entries.push(self.interner.entry(id, self.parser)?);
            }
        }
        Ok(entries)
    }

    /// Moves entries of the fast path to a trace, or decodes them again.
    fn take_entries(&mut self, from: u32, to: u32, entries: &mut Vec<TraceEntry>) -> Attempt<()> {
        match &mut self.decoder.entries {
            // The last trace, which is often the only one, takes over the entries without a copy.
            Entries::InMemory(all) if entries.is_empty() && to as usize == all.len() => {
                *entries = if from == 0 { std::mem::take(all) } else { all.split_off(from as usize) };
            }
            Entries::InMemory(all) => entries.extend_from_slice(&all[from as usize..to as usize]),
            Entries::InFile(_) => {
                let add = &mut |entry: &TraceEntry| entries.push(*entry);
                if !self.decoder.decode_again(from..to, self.parser, self.interner, add) {
                    return Err(Failure::Fallback);
                }
            }
        }
        Ok(())
    }

    /// Returns a trace whose entries remain in the file.
    fn lazy_trace(&mut self, list: NodeId, name: &str) -> Attempt<LazyTrace> {
        let mut trace = LazyTrace::default();
        for item in self.elements(list)? {
            let at = trace.n_entries();
            trace.push(match item {
                Item::Entries(at) => {
                    let (from, to) = self.parser.nodes.range(at);
                    Section::InFile(from..to)
                }
                item => {
                    let id = self.record(item, list, &|| format!("{name}[{at}]"))?;
                    Section::InMemory(self.interner.entry(id, self.parser)?)
                }
            });
        }
        Ok(trace)
    }

    /// Marks entries of the fast path as used by a trace; reports those that a trace used before.
    fn place(&mut self, from: u32, to: u32, at: usize, trace: &str) -> Attempt<()> {
        if self.is_placed.len() < to as usize {
            self.is_placed.resize(to as usize, false);
        }
        // An earlier trace has taken over these entries; the slow path reads them again.
        if to > self.decoder.entries.len() {
            return Err(Failure::Fallback);
        }
        for (n, is_placed) in self.is_placed[from as usize..to as usize].iter_mut().enumerate() {
            if std::mem::replace(is_placed, true) {
                self.parser.findings.shared_record(&format!("{trace}[{}]", at + n));
            }
        }
        Ok(())
    }

    fn annotations(&mut self, list: NodeId) -> Attempt<Vec<Annotation>> {
        let items = self.elements(list)?;
        let annotation = |(at, item)| self.annotation(item, list, &|| format!("external_annotations[{at}]"));
        items.into_iter().enumerate().map(annotation).collect()
    }

    fn annotation(&mut self, item: Item, list: NodeId, place: &dyn Fn() -> String) -> Attempt<Annotation> {
        let id = self.dict(item, list, place)?;
        let mut builder = Builder::<Annotation>::default();
        for (key, item) in take_pairs(id, self.parser)? {
            let name = self.parser.words.get(key).text.clone();
            builder.set(&name, self.interner.value(item, self.parser)?);
        }
        Ok(builder.finish(&mut self.interner.shapes))
    }

    /// Returns the dictionary of a record; reports it if it is also another record.
    fn record(&mut self, item: Item, list: NodeId, place: &dyn Fn() -> String) -> Attempt<NodeId> {
        let id = self.dict(item, list, place)?;
        if std::mem::replace(&mut self.parser.nodes.get_mut(id).is_record, true) {
            self.parser.findings.shared_record(&place());
            // Two bytes of the file, but every key is compared again.
            let node = self.parser.nodes.get(id);
            let (n_items, offset) = (node.items.len() as u64, node.offset.into());
            self.interner.values.repeat(n_items * n_items, offset, self.parser)?;
        }
        Ok(id)
    }

    /// Checks the memory now and then: what the records share is made of their containers, which are freed.
    fn count_record(&mut self) -> Attempt<()> {
        self.n_records += 1;
        if self.n_records.is_multiple_of(CHECKED_RECORDS) {
            let n_bytes = self.interner.n_bytes() + self.n_records * size_of::<Block>();
            self.parser.check_memory(n_bytes, self.parser.input.pos())?;
        }
        Ok(())
    }

    fn dict(&mut self, item: Item, list: NodeId, place: &dyn Fn() -> String) -> Attempt<NodeId> {
        match item {
            Item::Node(id) if self.parser.nodes.get(id).kind == Kind::Dict => {
                self.count_record()?;
                Ok(id)
            }
            // An entry or a frame where a segment, a block or an annotation should be: the slow path decides.
            Item::Entry(_) | Item::Entries(..) | Item::Frame(_) => Err(Failure::Fallback),
            _ => {
                let what = format!("{} is not a dict", place());
                Err(Error::malformed(self.parser.nodes.get(list).offset.into(), what).into())
            }
        }
    }
}
