//! The tape of a process that recorded, read again.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, path::Path, sync::Arc};

use crate::{
    python,
    recorder::{
        Annotation, CALIBRATED_NS, Chunk, Cut, DroppedEvents, EventContext, Events, Facts, LiveState, Log,
        LogTables, MappedRange, Recording, Scale, ScopeId, Source, Ticks, Usage, in_file::most_kept, log,
        past_cut, settings_of,
    },
    stack::{Generation, Past, PastModules, SharedNames, SourceCode, SourceFrame, StackParts, Symbolizer},
    tape::{Base, CodeNote, Contents, EventChunk, ModuleNote, Note, NotedFrame, StackRow, UsageNote},
};
use memreel_lockfree::events::Words;
use memreel_snapshot::words::{
    DeviceId, DeviceUsage, Inventory, InventorySegment, PoolId, ResidentReport, RunSums, SeededMap,
    SettingsReport, StackId, StreamId,
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
#[derive(Debug, Default)]
struct NotedNames {
    names: SeededMap<usize, Vec<SourceFrame>>,
    codes: SeededMap<u32, SourceCode>,
}

impl NotedNames {
    /// Returns the frames of a word, and whether they are Python's.
    fn name(&self, word: usize) -> (Vec<SourceFrame>, bool) {
        if let Some(frames) = self.names.get(&word) {
            return (frames.clone(), false);
        }
        match self.codes.get(&((word as u64 >> 32) as u32)) {
            Some(code) => (vec![python::frame_of(code, word)], true),
            None if self.names.is_empty() && self.codes.is_empty() => (Vec::new(), false),
            None => (vec![SourceFrame { name: format!("{word:#x}"), filename: "??".into(), line: 0 }], false),
        }
    }
}

/// What the notes of a tape say, sorted.
#[derive(Default)]
pub(super) struct Notes {
    history: Recording,
    has_gaps: bool,
    pub(super) contexts: BTreeMap<u32, EventContext>,
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

/// A tape that was read: what snapshots are made of.
#[derive(Debug)]
pub(crate) struct PastTape {
    facts: Facts,
    stacks: Vec<StackParts>,
    names: NotedNames,
    modules: Arc<Past>,
    events: Vec<(DeviceId, Cut)>,
    /// The devices' segments and blocks at the end.
    pub(crate) inventories: Vec<PastInventory>,
}

/// What a tape has of its devices.
pub(super) struct PastDevices {
    pub(super) bases: Vec<Base>,
    pub(super) chunks: Vec<EventChunk>,
    /// Whether no event may be missing, but for what the lists of live blocks say.
    pub(super) is_sound: bool,
}

/// Returns the tape of these contents. What is missing is added to their problems.
pub(crate) fn restore(contents: &mut Contents, names: Option<SharedNames>) -> PastTape {
    let notes = Notes::of(std::mem::take(&mut contents.notes));
    let (scale, stacks) = (scale(contents), std::mem::take(&mut contents.stacks));
    let devices = PastDevices {
        bases: std::mem::take(&mut contents.bases),
        chunks: std::mem::take(&mut contents.chunks),
        is_sound: contents.problems.is_empty() && contents.n_elsewhere == 0,
    };
    PastTape::new(notes, scale, stacks, names, devices, &mut contents.problems)
}

impl PastTape {
    pub(super) fn new(
        notes: Notes,
        scale: Scale,
        stacks: Vec<StackRow>,
        names: Option<SharedNames>,
        devices: PastDevices,
        problems: &mut Vec<String>,
    ) -> PastTape {
        let Notes { mut mapped, settings, sampling, .. } = notes;
        let n_problems = problems.len();
        let scopes = scopes_of(notes.scopes, problems);
        let contexts = contexts_of(notes.contexts, problems);
        let stacks = stacks_of(stacks, problems);
        mapped.retain(|of| known_stack(of.stack, stacks.len()).is_some());
        let modules = notes.modules.iter().map(|(generation, modules)| (*generation, &**modules));
        let usage = Usage::of_notes(notes.device_names, notes.reports, notes.resident, mapped);
        let timed = |annotation: Annotation| (annotation, scale.micros(annotation.at));
        let facts = Facts {
            tables: LogTables { contexts, scale },
            options: notes.history,
            has_gaps: notes.has_gaps,
            scope_paths: scopes,
            annotations: notes.annotations.into_iter().map(timed).collect(),
            // A tape does not say.
            n_stacks_refused: 0,
            usage: usage.all(scale),
            resident: usage.resident(scale),
            mapped: usage.mapped(scale),
        };
        let mut tape = PastTape {
            facts,
            stacks,
            names: notes.names,
            modules: Arc::new(Past::new(PastModules::of(modules, notes.landmark), names)),
            events: Vec::new(),
            inventories: Vec::new(),
        };
        let is_sound = devices.is_sound && problems.len() == n_problems;
        tape.add_devices(PastDevices { is_sound, ..devices }, &settings, &sampling, problems);
        tape
    }

    /// Takes over the events, and what is live at their ends.
    fn add_devices(
        &mut self,
        devices: PastDevices,
        settings: &SettingsReport,
        sampling: &BTreeMap<DeviceId, u64>,
        problems: &mut Vec<String>,
    ) {
        let mut by_device: BTreeMap<DeviceId, Vec<EventChunk>> = BTreeMap::new();
        for chunk in devices.chunks {
            by_device.entry(chunk.device).or_default().push(chunk);
        }
        let mut bases: BTreeMap<DeviceId, Base> =
            devices.bases.into_iter().map(|base| (base.device, base)).collect();
        for device in bases.keys() {
            by_device.entry(*device).or_default();
        }
        let (tables, n_stacks) = (&self.facts.tables, self.stacks.len());
        let capacity = self.facts.options.capacity();
        for (device, slots) in by_device {
            let mut base = bases.remove(&device);
            base.iter_mut().for_each(|base| forget_unknown_stacks(&mut base.segments, n_stacks));
            let n_dropped = slots.iter().map(|slot| slot.n_dropped).max().unwrap_or(0);
            let known = |words: &Words| log::known(*words, tables.n_contexts(), n_stacks);
            let chunks: Vec<Arc<Chunk>> =
                slots.iter().map(|slot| Arc::new(chunk_of(slot.events.iter().map(known)))).collect();
            let mut live = base
                .as_ref()
                .map_or_else(LiveState::default, |base| LiveState::of_run(&base.segments, &base.sums));
            let has_list = base.is_some();
            let n_missing = base.as_ref().map_or(0, |base| base.n_missing);
            if n_missing > 0 {
                problems.push(format!(
                    "device {device}: {n_missing} events before the oldest one are not in the list of live blocks"
                ));
            }
            let (after, horizon) = base.map_or((0, 0), |base| (base.until, base.horizon));
            let later = Cut::whole(&chunks, after);
            live.apply_all(Log::of(later).entries(tables).map(|entry| (entry.event, entry.time_us)));
            let last_begun = slots.iter().filter(|slot| slot.n_dropped == n_dropped);
            let begun = last_begun.filter_map(|slot| slot.events.iter().map(|words| words[1]).next()).min();
            let dropped = DroppedEvents { n_events: n_dropped, until: begun.unwrap_or(u64::MAX) };
            self.events.push((device, past_cut(&chunks, capacity, &dropped, horizon)));
            let (segments, has_segments) = (live.inventory(), live.has_segments());
            let (settings, sample_bytes) = (settings.clone(), sampling.get(&device).copied());
            // Without a list, so few chunks are all that there ever were.
            let has_all = has_list || n_dropped == 0 || slots.len() <= most_kept(capacity);
            let is_all = !self.facts.options.leaves_gaps() && sample_bytes.unwrap_or(0) == 0;
            let is_whole = has_all && devices.is_sound && n_missing == 0 && is_all;
            let mut allocated = Some(live.sums()).filter(|sums| is_whole && !sums.stacks.is_empty());
            let stacks = allocated.iter_mut().flat_map(|sums| &mut sums.stacks);
            stacks.for_each(|sum| sum.stack = known_stack(sum.stack, n_stacks));
            self.inventories.push(PastInventory {
                device,
                segments,
                has_segments,
                settings,
                sample_bytes,
                allocated,
            });
        }
        if self.inventories.is_empty() {
            self.inventories.push(PastInventory {
                device: DeviceId(0),
                segments: Vec::new(),
                has_segments: true,
                settings: settings.clone(),
                sample_bytes: None,
                allocated: None,
            });
        }
    }

    /// Returns what devices reported.
    pub(crate) fn usage(&self) -> &[DeviceUsage] {
        &self.facts.usage
    }

    /// Calls `look` with the path of each module whose file is not the one that was loaded, and why.
    pub(crate) fn for_each_missing(&self, look: impl FnMut(&Path, &'static str)) {
        self.modules.for_each_missing(look);
    }
}

impl Source for PastTape {
    fn events(&self, device: DeviceId) -> Box<dyn Events> {
        let of_device = self.events.iter().find(|(of, _)| *of == device);
        Box::new(of_device.map_or_else(|| Cut::whole(&[], 0), |(_, cut)| cut.clone()))
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    fn stack_parts(&self, stack: StackId) -> StackParts {
        self.stacks.get(stack.0 as usize).cloned().unwrap_or_default()
    }

    fn name_word(&self, word: usize) -> (Vec<SourceFrame>, bool) {
        self.names.name(word)
    }

    fn with_names(&self, name: &mut dyn FnMut(&mut Symbolizer)) {
        name(&mut Symbolizer::of_past(self.modules.clone()));
    }
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

pub(super) fn scale(contents: &Contents) -> Scale {
    let (ticks, ns) = contents.latest;
    match ns {
        CALIBRATED_NS.. => Scale::new(contents.start_us, ns, ticks),
        _ => Scale::new(contents.start_us, contents.ns_of_ticks, 1 << 30),
    }
}

/// The numbers of scopes are consecutive; a lost one is named by its number.
fn scopes_of(scopes: BTreeMap<u32, String>, problems: &mut Vec<String>) -> Vec<Arc<str>> {
    let lost = |number| format!("scope {number}, whose name was lost");
    let (scopes, n_lost) = without_gaps(scopes, 1, lost);
    if n_lost > 0 {
        problems.push(format!("the names of {n_lost} scopes were lost"));
    }
    std::iter::once("".into()).chain(scopes.into_iter().map(Arc::from)).collect()
}

pub(super) fn contexts_of(
    contexts: BTreeMap<u32, EventContext>,
    problems: &mut Vec<String>,
) -> Vec<EventContext> {
    // A stream that no event can have.
    let lost =
        |number| EventContext { stream: StreamId(i64::MIN + i64::from(number)), ..EventContext::default() };
    let (contexts, n_lost) = without_gaps(contexts, 1, lost);
    if n_lost > 0 {
        problems.push(format!("stream, pool and scope of {n_lost} kinds of events were lost"));
    }
    std::iter::once(EventContext::default()).chain(contexts).collect()
}

fn stacks_of(rows: Vec<StackRow>, problems: &mut Vec<String>) -> Vec<StackParts> {
    let parts = |StackRow { number, generation, mut native, source }: StackRow| {
        native.reverse();
        (number, StackParts { source, native, generation: Generation::of_number(generation) })
    };
    let lost = |number| StackParts { native: vec![0, number as usize], ..StackParts::default() };
    let (stacks, n_lost) = without_gaps(rows.into_iter().map(parts).collect(), 0, lost);
    if n_lost > 0 {
        problems.push(format!("{n_lost} stacks were lost"));
    }
    stacks
}

/// Returns the values of all numbers from `first` to the last, with `lost` in place of each that is missing, and how many are.
fn without_gaps<T>(mut all: BTreeMap<u32, T>, first: u32, lost: impl Fn(u32) -> T) -> (Vec<T>, usize) {
    let Some((last, _)) = all.last_key_value() else { return (Vec::new(), 0) };
    // A number that is wrong must not cost memory.
    let last = (*last).min(u32::try_from(4 * all.len() + 1024).unwrap_or(u32::MAX));
    let mut n_lost = 0;
    let values = (first..=last).map(|number| {
        all.remove(&number).unwrap_or_else(|| {
            n_lost += 1;
            lost(number)
        })
    });
    (values.collect(), n_lost)
}

pub(super) fn chunk_of(events: impl Iterator<Item = Words>) -> Chunk {
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
    use crate::recorder::{Recorder, Track};
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
            let inventories = restore(&mut contents, None).inventories;
            assert_eq!(contents.problems, [""; 0]);
            let blocks = inventories[0].segments.iter().flat_map(|segment| &segment.blocks);
            let mut live: Vec<u64> = blocks.map(|block| block.address.0).collect();
            live.sort_unstable();
            let expected: Vec<u64> = (1..=N).map(|number| number << 12).chain([1 << 40]).collect();
            assert!(live == expected, "{is_elsewhere}: {} of {} blocks", live.len(), expected.len());
        }
    }
}
