//! Rewrites stacks: with fewer frames, shorter paths, or no names.

use std::{io, ops::Range};

use crate::{
    analysis::{disguised, folder, is_mark, is_shown},
    model::{
        Frame, FrameIndex, Shape, ShapeId, Shapes, Slot, Snapshot, SnapshotSource, StackIndex, StackTable,
        Text, TraceEntry, UseCounts, Value, forget_allocated, forget_mapped, frame_value, stack_from_value,
        store_resident,
    },
    words::{
        AreaKind, DeviceId, ResidentArea, SeededMap, SeededSet,
        paths::{SEPARATORS, with_slashes},
    },
};

/// What to leave out of stacks; see the methods of [`Slim`](super::Slim).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct FrameOptions {
    pub(super) depth: Option<usize>,
    pub(super) drop_paths: Vec<String>,
    pub(super) strip_prefixes: Vec<String>,
    pub(super) anonymise: bool,
}

/// A source with rewritten stacks. Unused stacks are left out.
pub(super) struct Reframed<'a> {
    base: Box<dyn SnapshotSource + 'a>,
    head: Snapshot,
    /// The new stacks by the old numbers.
    stacks: Vec<Option<StackIndex>>,
    /// The new shapes by the old numbers; empty if shapes do not change.
    shapes: Vec<Option<ShapeId>>,
    uses: UseCounts,
}

impl<'a> Reframed<'a> {
    pub(super) fn new(base: Box<dyn SnapshotSource + 'a>, options: &FrameOptions) -> Reframed<'a> {
        let mut head = base.head().without_traces();
        // The sums have their own frames.
        forget_allocated(&mut head);
        forget_mapped(&mut head);
        let old = std::mem::take(&mut head.stacks);
        let mut rewriting = Rewriting::new(old, options);
        let of_base = base.use_counts();
        for (stack, _) in of_base.stacks() {
            rewriting.stack(stack, &mut head.shapes);
        }
        let Snapshot { segments, host_segments, host_traces, shapes, .. } = &mut head;
        host_traces.iter_mut().for_each(|entry| rewriting.replace(&mut entry.stack, shapes));
        for segment in segments.iter_mut().chain(host_segments) {
            rewriting.replace(&mut segment.stack, shapes);
            for block in &mut segment.blocks {
                rewriting.replace(&mut block.stack, shapes);
                block.shape = rewriting.block_shape(block.shape, shapes);
            }
        }
        let Rewriting { new, mut names, stacks, block_shapes, .. } = rewriting;
        head.stacks = new;
        let shapes = if options.anonymise {
            let with_history: SeededSet<ShapeId> = block_shapes.into_values().flatten().collect();
            anonymise_texts(&mut head, &of_base, &mut names, &with_history)
        } else {
            Vec::new()
        };
        let mut reframed = Reframed { base, head, stacks, shapes, uses: UseCounts::default() };
        let mut uses = UseCounts::default();
        uses.extend(&of_base, |stack| reframed.stack(stack), |shape| reframed.shape(shape));
        reframed.uses = uses;
        reframed
    }

    fn stack(&self, stack: StackIndex) -> StackIndex {
        self.stacks[stack.index()].unwrap_or(StackTable::EMPTY)
    }

    fn shape(&self, shape: ShapeId) -> ShapeId {
        self.shapes.get(shape.index()).copied().flatten().unwrap_or(shape)
    }

    fn entry(&self, entry: &TraceEntry) -> TraceEntry {
        let stack = entry.stack.map(|stack| self.stack(stack));
        TraceEntry { stack, shape: self.shape(entry.shape), ..*entry }
    }
}

impl SnapshotSource for Reframed<'_> {
    fn head(&self) -> &Snapshot {
        &self.head
    }

    fn n_traces(&self) -> usize {
        self.base.n_traces()
    }

    fn for_each_entry(&self, device: DeviceId, look: &mut dyn FnMut(&TraceEntry)) {
        self.base.for_each_entry(device, &mut |entry| look(&self.entry(entry)));
    }

    fn n_entries(&self, device: DeviceId) -> usize {
        self.base.n_entries(device)
    }

    fn for_each_entry_in(&self, device: DeviceId, range: Range<usize>, look: &mut dyn FnMut(&TraceEntry)) {
        self.base.for_each_entry_in(device, range, &mut |entry| look(&self.entry(entry)));
    }

    fn use_counts(&self) -> UseCounts {
        self.uses.clone()
    }

    fn check(&self) -> io::Result<()> {
        self.base.check()
    }
}

struct Rewriting<'a> {
    options: &'a FrameOptions,
    old: StackTable,
    new: StackTable,
    /// By the old frame: `None` until it is first used, then the new frame, or `Some(None)` if it is dropped.
    frames: Vec<Option<Option<FrameIndex>>>,
    /// Whether an old frame counts in a stack's depth; frames that viewers hide do not.
    counts: Vec<bool>,
    stacks: Vec<Option<StackIndex>>,
    names: Names,
    members: Vec<FrameIndex>,
    /// By the old shape of a block: the new one, if it has a `history` of uses.
    block_shapes: SeededMap<ShapeId, Option<ShapeId>>,
    /// The lists of frames that a `history` holds, by the new stack.
    frame_lists: SeededMap<StackIndex, Value>,
}

impl Rewriting<'_> {
    fn new(old: StackTable, options: &FrameOptions) -> Rewriting<'_> {
        let (n_frames, n_stacks) = (old.all_frames().len(), old.len());
        Rewriting {
            options,
            frames: vec![None; n_frames],
            counts: old.all_frames().map(|frame| is_shown(&frame.name, &frame.filename)).collect(),
            stacks: vec![None; n_stacks],
            old,
            new: StackTable::default(),
            names: Names::default(),
            members: Vec::new(),
            block_shapes: SeededMap::default(),
            frame_lists: SeededMap::default(),
        }
    }

    fn replace(&mut self, stack: &mut Option<StackIndex>, shapes: &mut Shapes) {
        if let Some(old) = *stack {
            *stack = Some(self.stack(old, shapes));
        }
    }

    fn stack(&mut self, old: StackIndex, shapes: &mut Shapes) -> StackIndex {
        if let Some(new) = self.stacks[old.index()] {
            return new;
        }
        let mut members = std::mem::take(&mut self.members);
        members.clear();
        let mut n_left = self.options.depth.unwrap_or(usize::MAX);
        for nth in 0..self.old.members(old).len() {
            if n_left == 0 {
                break;
            }
            let frame = self.old.members(old)[nth];
            let new = self.frame(frame, shapes);
            n_left -= usize::from(new.is_some() && self.counts[frame.index()]);
            members.extend(new);
        }
        let new = self.new.intern_stack(&members);
        self.members = members;
        self.stacks[old.index()] = Some(new);
        new
    }

    fn frame(&mut self, old: FrameIndex, shapes: &mut Shapes) -> Option<FrameIndex> {
        if let Some(done) = self.frames[old.index()] {
            return done;
        }
        let frame = self.old.frame(old);
        let filename = with_slashes(&frame.filename);
        let is_dropped = self.options.drop_paths.iter().any(|path| filename.contains(&*with_slashes(path)));
        let new = (!is_dropped).then(|| {
            let mut frame = frame.clone();
            self.options.strip(&mut frame);
            if self.options.anonymise {
                self.names.hide(&mut frame, shapes);
            }
            self.new.intern_frame(frame)
        });
        self.frames[old.index()] = Some(new);
        new
    }
}

/// Rewrites the `history` of a block, in which PyTorch 2.0 wrote its uses with their sizes and stacks.
impl Rewriting<'_> {
    /// The shape of a block, with other stacks in its `history`.
    fn block_shape(&mut self, old: ShapeId, shapes: &mut Shapes) -> ShapeId {
        if let Some(new) = self.block_shapes.get(&old) {
            return new.unwrap_or(old);
        }
        let uses = match shapes.get(old).value("history") {
            Some(Value::List(uses)) => Some(uses.clone()),
            _ => None,
        };
        let new = uses.map(|uses| {
            let uses = uses.iter().filter_map(|one| self.one_use(one, shapes)).collect();
            let mut shape = shapes.get(old).clone();
            shape.set("history".into(), Slot::Value(Value::List(uses)));
            shapes.intern(shape)
        });
        self.block_shapes.insert(old, new);
        new.unwrap_or(old)
    }

    /// Rewrites one use; `None` if names are to be hidden and it is not a dictionary.
    fn one_use(&mut self, one: &Value, shapes: &mut Shapes) -> Option<Value> {
        let Value::Dict(pairs) = one else { return (!self.options.anonymise).then(|| one.clone()) };
        let pairs = pairs.iter().filter_map(|(key, value)| {
            let stack = match key.as_text() {
                Some(name) if &**name == "frames" => stack_from_value(value, &mut self.old, shapes),
                _ => None,
            };
            if let Some(stack) = stack {
                return Some((key.clone(), self.frame_list(stack, shapes)));
            }
            if !self.options.anonymise {
                return Some((key.clone(), value.clone()));
            }
            Some((key.clone(), hide_value(key.as_text()?, value, &mut self.names)?))
        });
        Some(Value::Dict(pairs.collect()))
    }

    /// The frames of an old stack, rewritten, as a list of dictionaries.
    fn frame_list(&mut self, old: StackIndex, shapes: &mut Shapes) -> Value {
        // Reading the stacks of a `history` added them to the old ones.
        self.stacks.resize(self.old.len(), None);
        self.frames.resize(self.old.all_frames().len(), None);
        let n_known = self.counts.len();
        self.counts.extend(self.old.all_frames().skip(n_known).map(|f| is_shown(&f.name, &f.filename)));
        let new = self.stack(old, shapes);
        let frames = &self.new;
        let list = || Value::List(frames.frames(new).map(|frame| frame_value(frame, shapes)).collect());
        self.frame_lists.entry(new).or_insert_with(list).clone()
    }
}

impl FrameOptions {
    /// Removes the longest prefix that fits from a path.
    fn strip(&self, frame: &mut Frame) {
        let fits =
            self.strip_prefixes.iter().filter_map(|prefix| frame.filename.strip_prefix(prefix.as_str()));
        if let Some(rest) = fits.min_by_key(|rest| rest.len()) {
            frame.filename = rest.trim_start_matches(SEPARATORS).into();
        }
    }
}

/// Replaces names by numbers, the same name by the same number.
#[derive(Debug, Default)]
struct Names {
    functions: SeededMap<Text, Text>,
    files: SeededMap<Text, Text>,
    packages: SeededMap<Text, Text>,
    texts: SeededMap<Text, Text>,
}

fn number(names: &mut SeededMap<Text, Text>, name: &Text, kind: &str) -> Text {
    let next = names.len() + 1;
    names.entry(name.clone()).or_insert_with(|| format!("{kind}{next}").into()).clone()
}

impl Names {
    fn hide(&mut self, frame: &mut Frame, shapes: &mut Shapes) {
        if is_mark(frame) {
            return Names::hide_rest(frame, shapes);
        }
        let function = number(&mut self.functions, &frame.name, "function");
        let file = match &*frame.filename {
            unknown @ ("" | "??") => unknown.into(),
            _ => number(&mut self.files, &frame.filename, "file"),
        };
        let folder = folder(frame, |name| number(&mut self.packages, &name.into(), "package").to_string());
        let file = format!("{folder}{file}");
        let (name, filename) = disguised(frame, &function, &file);
        (frame.name, frame.filename) = (name.into(), filename.into());
        Names::hide_rest(frame, shapes);
    }

    /// Drops the other values of a frame (`fx_node_name`, …), which name the model.
    fn hide_rest(frame: &mut Frame, shapes: &mut Shapes) {
        let shape = shapes.get(frame.shape);
        if shape.slots.iter().any(|(_, slot)| matches!(slot, Slot::Value(_))) {
            let fields = shape.slots.iter().filter(|(_, slot)| matches!(slot, Slot::Field(_)));
            let fields = Shape { slots: fields.cloned().collect() };
            frame.shape = shapes.intern(fields);
        }
    }
}

/// Texts without information.
const EMPTY_TEXTS: &[&str] = &["", "N/A", "unknown"];

/// Replaces scopes, and the texts of unknown keys of entries, blocks and segments, by numbers. Returns the
/// new shapes by the old numbers.
fn anonymise_texts(
    snapshot: &mut Snapshot,
    of_entries: &UseCounts,
    names: &mut Names,
    with_history: &SeededSet<ShapeId>,
) -> Vec<Option<ShapeId>> {
    for annotation in &mut snapshot.external_annotations {
        annotation.name = number(&mut names.texts, &annotation.name, "scope");
    }
    let mut resident = snapshot.resident();
    // The names of arenas are the recorder's.
    let is_arena = |area: &ResidentArea| area.kind == AreaKind::Malloc && area.name.starts_with('[');
    let has_file = |area: &&mut ResidentArea| !area.name.is_empty() && !is_arena(area);
    for area in resident.iter_mut().flat_map(|report| &mut report.areas).filter(has_file) {
        area.name = number(&mut names.texts, &area.name.as_str().into(), "file").to_string();
    }
    store_resident(snapshot, &resident);
    let mut hidden: Vec<Option<ShapeId>> = vec![None; snapshot.shapes.len()];
    let Snapshot { segments, host_segments, host_traces, external_annotations, shapes, shape: top, .. } =
        snapshot;
    let mut hide = |id: &mut ShapeId| {
        let new = match hidden[id.index()] {
            Some(new) => new,
            None => {
                // A `history` is already rewritten.
                let is_done = |key: &str| key == "history" && with_history.contains(id);
                let hide = |(key, slot): &(Text, Slot)| match is_done(key) {
                    true => Some((key.clone(), slot.clone())),
                    false => hide_slot(key, slot, names),
                };
                let shape = Shape { slots: shapes.get(*id).slots.iter().filter_map(hide).collect() };
                shapes.intern(shape)
            }
        };
        hidden[id.index()] = Some(new);
        *id = new;
    };
    of_entries.shapes().for_each(|(mut shape, _)| hide(&mut shape));
    host_traces.iter_mut().for_each(|entry| hide(&mut entry.shape));
    for segment in segments.iter_mut().chain(host_segments.iter_mut()) {
        hide(&mut segment.shape);
        segment.blocks.iter_mut().for_each(|block| hide(&mut block.shape));
    }
    external_annotations.iter_mut().for_each(|annotation| hide(&mut annotation.shape));
    let is_known = |key: &Text, slot: &Slot| matches!(slot, Slot::Field(_)) || &**key == "allocator_settings";
    top.slots.retain(|(key, slot)| is_known(key, slot));
    hidden
}

/// Replaces a text by a number; returns `None` for containers of unknown content.
fn hide_slot(key: &Text, slot: &Slot, names: &mut Names) -> Option<(Text, Slot)> {
    let Slot::Value(value) = slot else { return Some((key.clone(), slot.clone())) };
    Some((key.clone(), Slot::Value(hide_value(key, value, names)?)))
}

fn hide_value(key: &str, value: &Value, names: &mut Names) -> Option<Value> {
    match value {
        Value::Text(text) if EMPTY_TEXTS.contains(&&**text) => Some(value.clone()),
        Value::Text(text) => Some(Value::Text(number(&mut names.texts, text, "scope"))),
        Value::Tuple(_) if key.ends_with("pool_id") => Some(value.clone()),
        Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) => Some(value.clone()),
        _ => None,
    }
}
