//! A recorder as it was in a process whose tape is read.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use super::{
    annotation_ring::Ring,
    chunk::{Chunk, N_WORDS},
    clock::{CALIBRATED_NS, Clock, Ticks},
    context::{Contexts, EventContext},
    handle::Recorder,
    in_file::most_kept,
    live::Live,
    log::{self, Cut, LogTables},
    mapped::MappedRange,
    opening::settings_of,
    recording::Recording,
    scope_names::{Annotation, ScopeId, ScopeNames},
    shared::Shared,
    tape::{Dropped, Tape},
    usage::Usage,
};
use crate::{
    process::sync::{Mutex, lock},
    python,
    stack::{FrameSource, Generation, Past, PastModules, SharedNames, SourceCode, SourceFrame},
    tape::{Base, CodeNote, Contents, EventChunk, ModuleNote, Note, NotedFrame, StackRow, UsageNote},
};
use memreel_snapshot::words::{
    DeviceId, Inventory, InventorySegment, PoolId, ResidentReport, RunSums, SeededMap, SettingsReport,
    StackId, StreamId,
};

/// The segments and blocks of a device as they were at the end of its tape.
#[derive(Debug)]
pub(crate) struct PastInventory {
    device: DeviceId,
    segments: Vec<InventorySegment>,
    /// Whether the allocator knows its segments.
    has_segments: bool,
    settings: SettingsReport,
    /// The device's own sampling interval.
    sample_bytes: Option<u64>,
    /// What was allocated with each stack; `None` if events are lost that no list has.
    allocated: Option<RunSums>,
}

impl Inventory for PastInventory {
    fn device(&self) -> DeviceId {
        self.device
    }

    fn has_segments(&self) -> bool {
        self.has_segments
    }

    fn inspect(&self, look: &mut dyn FnMut(&[InventorySegment])) {
        look(&self.segments);
    }

    fn sample_bytes(&self) -> Option<u64> {
        self.sample_bytes
    }

    fn allocated(&self) -> Option<RunSums> {
        self.allocated.clone()
    }

    fn settings(&self) -> SettingsReport {
        self.settings.clone()
    }
}

/// The names of a frame source's words, as they were noted: of each word, or of the functions that words are in.
#[derive(Default)]
struct NotedNames {
    names: SeededMap<usize, Vec<SourceFrame>>,
    codes: SeededMap<u32, SourceCode>,
}

impl NotedNames {
    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.codes.is_empty()
    }

    /// Returns the function that a word is in.
    fn code_of(&self, word: usize) -> Option<&SourceCode> {
        self.codes.get(&((word as u64 >> 32) as u32)).filter(|_| !self.names.contains_key(&word))
    }
}

impl FrameSource for NotedNames {
    fn capture(&self, _: &mut [usize]) -> usize {
        0
    }

    fn name(&self, word: usize) -> Vec<SourceFrame> {
        if let Some(code) = self.code_of(word) {
            return vec![python::frame_of(code, word)];
        }
        let unnamed = || vec![SourceFrame { name: format!("{word:#x}"), filename: "??".into(), line: 0 }];
        self.names.get(&word).cloned().unwrap_or_else(unnamed)
    }

    fn is_python(&self, word: usize) -> bool {
        self.code_of(word).is_some()
    }
}

/// What the notes of a tape say, sorted.
#[derive(Default)]
pub(super) struct Notes {
    history: Recording,
    has_gaps: bool,
    contexts: BTreeMap<u32, EventContext>,
    scopes: BTreeMap<u32, String>,
    annotations: Vec<Annotation>,
    modules: BTreeMap<u32, Vec<ModuleNote>>,
    /// The address of the recorder's landmark.
    landmark: usize,
    names: NotedNames,
    settings: SettingsReport,
    sampling: BTreeMap<DeviceId, u64>,
    device_names: Vec<(DeviceId, String, String)>,
    reports: Vec<(DeviceId, UsageNote)>,
    resident: Vec<(u64, Box<ResidentReport>)>,
    mapped: Vec<MappedRange>,
}

/// Returns the recorder of a tape, switched off, and the devices' segments and blocks at its end. What is missing is
/// added to the problems of the contents.
pub(crate) fn restore(contents: &mut Contents, names: Option<SharedNames>) -> (Recorder, Vec<PastInventory>) {
    let mut notes = Notes::of(std::mem::take(&mut contents.notes));
    let mut shared = Shared::new(0);
    shared.clock = clock(contents);
    restore_scopes(&notes, &mut lock(&shared.scopes), &mut contents.problems);
    restore_contexts(&notes, &mut lock(&shared.contexts), &mut contents.problems);
    restore_stacks(contents, &shared);
    let modules = notes.modules.iter().map(|(generation, modules)| (*generation, &**modules));
    let _ = shared.past.set(Arc::new(Past::new(PastModules::of(modules, notes.landmark), names)));
    let mut annotations = Ring::new(notes.annotations.len());
    notes.annotations.iter().for_each(|annotation| annotations.push(*annotation));
    shared.annotations = Mutex::new(annotations);
    let n_stacks = shared.stacks.n_numbers();
    notes.mapped.retain(|of| known_stack(of.stack, n_stacks).is_some());
    shared.usage =
        Mutex::new(Usage::of_notes(notes.device_names, notes.reports, notes.resident, notes.mapped));
    // Relaxed: nothing is shared yet.
    shared.has_gaps.store(notes.has_gaps, Ordering::Relaxed);
    if !notes.names.is_empty() {
        shared.stacks.set_source(Arc::new(notes.names));
    }
    let inventories = restore_tapes(contents, &shared, &notes.history, &notes.settings, &notes.sampling);
    shared.history = Mutex::new(notes.history);
    (Recorder { shared: Arc::new(shared) }, inventories)
}

impl Notes {
    pub(super) fn of(notes: Vec<Note>) -> Notes {
        let mut all = Notes::default();
        for note in notes {
            match note {
                Note::Recording(history) => {
                    (all.history, all.has_gaps) = (Recording::of_note(&history), history.has_gaps);
                }
                Note::Context { number, stream, graph, user, scope } => {
                    let (stream, pool) = (StreamId(stream), PoolId { graph, user });
                    all.contexts.insert(number, EventContext { stream, pool, scope: ScopeId(scope) });
                }
                Note::Scope { number, path } => drop(all.scopes.insert(number, path)),
                Note::Annotation { is_start, scope, device, ticks } => all.annotations.push(Annotation {
                    is_start,
                    scope: ScopeId(scope),
                    device: DeviceId(device),
                    at: Ticks(ticks),
                }),
                Note::Modules { generation, landmark, modules } => {
                    all.landmark = usize::try_from(landmark).unwrap_or(0);
                    all.modules.insert(generation, modules);
                }
                Note::Source { word, frames } => {
                    let frame = |NotedFrame { name, filename, line }: NotedFrame| SourceFrame {
                        name,
                        filename,
                        line,
                    };
                    let frames = frames.into_iter().map(frame).collect();
                    if let Ok(word) = usize::try_from(word) {
                        all.names.names.insert(word, frames);
                    }
                }
                Note::Settings(pairs) => all.settings = settings_of(&pairs),
                Note::Sampling { device, bytes } => drop(all.sampling.insert(DeviceId(device), bytes)),
                Note::Usage { device, reports } => {
                    all.reports.extend(reports.into_iter().map(|report| (DeviceId(device), report)));
                }
                Note::Device { device, name, uuid } => all.device_names.push((DeviceId(device), name, uuid)),
                Note::Code(code) => {
                    let CodeNote { number, name, qualname, filename, first_line, version, line_table } = code;
                    let code = SourceCode { name, qualname, filename, first_line, version, line_table };
                    all.names.codes.insert(number, code);
                }
                Note::Resident { ticks, report } => all.resident.push((ticks, report)),
                Note::Mapped { start, end, stack, from, until } => all.mapped.push(MappedRange {
                    range: start..end,
                    stack: StackId(stack),
                    from: Ticks(from),
                    until: Ticks(until),
                }),
                Note::Base { .. } => {}
            }
        }
        all
    }
}

pub(super) fn clock(contents: &Contents) -> Clock {
    let (ticks, ns) = contents.latest;
    match ns {
        CALIBRATED_NS.. => Clock::of_past(contents.start_us, ns, ticks),
        _ => Clock::of_past(contents.start_us, contents.ns_of_ticks, 1 << 30),
    }
}

/// The numbers of scopes are consecutive; a lost one is named by its number.
fn restore_scopes(notes: &Notes, scopes: &mut ScopeNames, problems: &mut Vec<String>) {
    let n_lost = fill_gaps(&notes.scopes, 1, |number, path| {
        let path = path.map_or_else(|| format!("scope {number}, whose name was lost"), String::clone);
        scopes.add(path.into());
    });
    if n_lost > 0 {
        problems.push(format!("the names of {n_lost} scopes were lost"));
    }
}

pub(super) fn restore_contexts(notes: &Notes, contexts: &mut Contexts, problems: &mut Vec<String>) {
    let n_lost = fill_gaps(&notes.contexts, 1, |number, context| {
        // A stream that no event can have keeps the numbers of the others.
        let lost = EventContext { stream: StreamId(i64::MIN + i64::from(number)), ..EventContext::default() };
        contexts.number(context.copied().unwrap_or(lost));
    });
    if n_lost > 0 {
        problems.push(format!("stream, pool and scope of {n_lost} kinds of events were lost"));
    }
}

/// Calls `add` for every number from `first` to the last, with its value if there is one; returns how many had none.
fn fill_gaps<T>(all: &BTreeMap<u32, T>, first: u32, mut add: impl FnMut(u32, Option<&T>)) -> usize {
    let mut n_lost = 0;
    let Some((last, _)) = all.last_key_value() else { return 0 };
    // A number that is wrong must not cost memory.
    let last = (*last).min(u32::try_from(4 * all.len() + 1024).unwrap_or(u32::MAX));
    for number in first..=last {
        let value = all.get(&number);
        n_lost += usize::from(value.is_none());
        add(number, value);
    }
    n_lost
}

fn restore_stacks(contents: &mut Contents, shared: &Shared) {
    let rows: BTreeMap<u32, &StackRow> = contents.stacks.iter().map(|row| (row.number, row)).collect();
    let mut n_wrong = 0;
    let n_lost = fill_gaps(&rows, 0, |number, row| {
        let stack = match row {
            Some(row) => {
                shared.stacks.restore(&row.native, &row.source, Generation::of_number(row.generation))
            }
            None => shared.stacks.restore(&[number as usize, 0], &[], Generation::default()),
        };
        n_wrong += usize::from(stack.0 != number);
    });
    if n_lost + n_wrong > 0 {
        contents.problems.push(format!("{} stacks were lost", n_lost + n_wrong));
    }
}

/// Fills the tapes, and returns what is live at their ends.
fn restore_tapes(
    contents: &mut Contents,
    shared: &Shared,
    history: &Recording,
    settings: &SettingsReport,
    sampling: &BTreeMap<DeviceId, u64>,
) -> Vec<PastInventory> {
    let mut by_device: BTreeMap<DeviceId, Vec<EventChunk>> = BTreeMap::new();
    for chunk in std::mem::take(&mut contents.chunks) {
        by_device.entry(chunk.device).or_default().push(chunk);
    }
    let mut bases: BTreeMap<DeviceId, Base> =
        std::mem::take(&mut contents.bases).into_iter().map(|base| (base.device, base)).collect();
    for device in bases.keys() {
        by_device.entry(*device).or_default();
    }
    let tables = LogTables { contexts: lock(&shared.contexts).all(), scale: shared.clock.scale() };
    let n_stacks = shared.stacks.n_numbers();
    let mut inventories = Vec::new();
    let is_sound = contents.problems.is_empty() && contents.n_elsewhere == 0;
    for (device, slots) in by_device {
        let mut base = bases.remove(&device);
        base.iter_mut().for_each(|base| forget_unknown_stacks(&mut base.segments, n_stacks));
        let n_dropped = slots.iter().map(|slot| slot.n_dropped).max().unwrap_or(0);
        let known = |words: &[u64; N_WORDS]| log::known(*words, tables.n_contexts(), n_stacks);
        let chunks: Vec<Arc<Chunk>> =
            slots.iter().map(|slot| Arc::new(chunk_of(slot.events.iter().map(known)))).collect();
        let mut live =
            base.as_ref().map_or_else(Live::default, |base| Live::of(&base.segments).with_sums(&base.sums));
        let has_list = base.is_some();
        let n_missing = base.as_ref().map_or(0, |base| base.n_missing);
        if n_missing > 0 {
            contents.problems.push(format!(
                "device {device}: {n_missing} events before the oldest one are not in the list of live blocks"
            ));
        }
        let (after, horizon) = base.map_or((0, 0), |base| (base.until, base.horizon));
        let cut = Cut::whole(&chunks, after);
        cut.read().entries(&tables).for_each(|entry| live.apply(&entry.event, entry.time_us));
        let last_begun = slots.iter().filter(|slot| slot.n_dropped == n_dropped);
        let begun = last_begun.filter_map(|slot| slot.events.iter().map(|words| words[1]).next()).min();
        let dropped = Dropped { n_events: n_dropped, until: begun.unwrap_or(u64::MAX) };
        let tape = Arc::new(Tape::restored(chunks, history.capacity(), dropped, horizon));
        lock(&shared.tapes).push((device, tape));
        let (segments, has_segments) = (live.inventory(), live.has_segments());
        let (settings, sample_bytes) = (settings.clone(), sampling.get(&device).copied());
        // Without a list, so few chunks are all that there ever were.
        let has_all = has_list || n_dropped == 0 || slots.len() <= most_kept(history.capacity());
        let is_all = !history.leaves_gaps() && sample_bytes.unwrap_or(0) == 0;
        let is_whole = has_all && is_sound && n_missing == 0 && is_all;
        let mut allocated = Some(live.sums()).filter(|sums| is_whole && !sums.stacks.is_empty());
        let stacks = allocated.iter_mut().flat_map(|sums| &mut sums.stacks);
        stacks.for_each(|sum| sum.stack = known_stack(sum.stack, n_stacks));
        inventories.push(PastInventory { device, segments, has_segments, settings, sample_bytes, allocated });
    }
    if inventories.is_empty() {
        let (device, segments, settings) = (DeviceId(0), Vec::new(), settings.clone());
        inventories.push(PastInventory {
            device,
            segments,
            has_segments: true,
            settings,
            sample_bytes: None,
            allocated: None,
        });
    }
    inventories
}

pub(super) fn chunk_of(events: impl Iterator<Item = [u64; N_WORDS]>) -> Chunk {
    let chunk = Chunk::default();
    events.for_each(|words| _ = chunk.push(words));
    chunk
}

/// Takes the numbers of stacks that the recording lacks out of segments and blocks.
fn forget_unknown_stacks(segments: &mut [InventorySegment], n_stacks: usize) {
    let of_blocks = |segment: &mut InventorySegment| {
        let InventorySegment { stack, blocks, .. } = segment;
        let stacks = blocks.iter_mut().map(|block| &mut block.stack).chain([stack]);
        stacks.for_each(|stack| *stack = known_stack(*stack, n_stacks));
    };
    segments.iter_mut().for_each(of_blocks);
}

fn known_stack(stack: StackId, n_stacks: usize) -> StackId {
    if (stack.0 as usize) < n_stacks { stack } else { StackId::NONE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Track;
    use memreel_snapshot::words::{Action, Address, BlockState, Event, InventoryBlock};

    /// An allocator that has a block, and serves others while its list is made.
    struct Busy {
        track: Track,
        n_later: u64,
    }

    fn of_blocks(addresses: impl Iterator<Item = u64>) -> InventorySegment {
        let block = |address| InventoryBlock {
            address: Address(address),
            size_bytes: 512,
            requested_bytes: 512,
            state: BlockState::ActiveAllocated,
            stack: StackId::NONE,
        };
        InventorySegment::of_blocks(addresses.map(block).collect())
    }

    impl Inventory for Busy {
        fn device(&self) -> DeviceId {
            self.track.device()
        }

        fn has_segments(&self) -> bool {
            false
        }

        fn inspect(&self, _: &mut dyn FnMut(&[InventorySegment])) {
            panic!("no event could be recorded meanwhile");
        }

        fn segments_at(&self, cut: &mut dyn FnMut(u64)) -> Vec<InventorySegment> {
            cut(512);
            for number in 1..=self.n_later {
                let (stream, pool, stack) = (StreamId::DEFAULT, PoolId::DEFAULT, StackId::NONE);
                let address = Address(number << 12);
                let event = Event { action: Action::Alloc, address, size_bytes: 512, stream, pool, stack };
                self.track.record_unlocked(event);
            }
            vec![of_blocks([1 << 40].into_iter())]
        }
    }

    /// The ring drops most of the events that come before the list.
    #[test]
    fn a_list_that_comes_later_lacks_no_event() {
        const N: u64 = 100_000;
        for is_elsewhere in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.tape");
            let recorder = Recorder::new();
            let history = Recording::all().max_entries(4096).tape(&path);
            recorder.record_history(&if is_elsewhere { history.kept_elsewhere() } else { history });
            let busy = Busy { track: recorder.track(DeviceId(0)), n_later: N };
            recorder.begin_tape(&busy);
            let mut contents = Contents::read(&path).unwrap();
            let (_, inventories) = restore(&mut contents, None);
            assert_eq!(contents.problems, [""; 0]);
            let blocks = inventories[0].segments.iter().flat_map(|segment| &segment.blocks);
            let mut live: Vec<u64> = blocks.map(|block| block.address.0).collect();
            live.sort_unstable();
            let expected: Vec<u64> = (1..=N).map(|number| number << 12).chain([1 << 40]).collect();
            assert!(live == expected, "{is_elsewhere}: {} of {} blocks", live.len(), expected.len());
        }
    }
}
