//! Follows the tape of a process that may record on: what is live at each look, by reading only what is new.
//!
//! The state is taken once, from the last list of live blocks in the file and the events after it. From then on each look
//! reads what was appended. Threads write their chunks independently, so events are applied up to the newest one that the
//! look before had seen: by then all older ones are in the file. Memory is in proportion to what is live, to the distinct
//! stacks and to the number of slots of the file, whose ring is bounded, and not to the length of the run.
//!
//! A list of live blocks in the file that goes further than what was certainly read means that events may have left the
//! file unread. The state is then taken anew, and [`FollowedTape::n_anew`] counts it.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    followed::{FollowedState, HeldSums},
    recovered::{Notes, PastDevices, PastTape, contexts_of, scale},
};
use crate::{
    process::open_plain,
    recorder::{
        LogTables, Scale,
        log::{entry, known},
    },
    stack::SharedNames,
    tape::{Base, Contents, Note, Seen, StackRow, UsageNote},
};
use memreel_lockfree::events::Words;
use memreel_snapshot::words::{DeviceId, Error, Result, RunSums, SeededMap, StackId, UsageReport};

/// How often the state is taken anew in one look, if the process drops events meanwhile.
const ATTEMPTS: usize = 4;

/// A tape that is followed.
#[derive(Debug)]
pub(crate) struct FollowedTape {
    path: PathBuf,
    file: File,
    seen: Seen,
    /// The header, as it was at the last look.
    header: Contents,
    scale: Scale,
    stacks: SeededMap<u32, StackRow>,
    notes: KeptNotes,
    devices: BTreeMap<DeviceId, FollowedState>,
    n_anew: u64,
}

/// The notes that are kept: what names refer to, and the last and the highest report of each device.
#[derive(Debug, Default)]
struct KeptNotes {
    contexts: Vec<Note>,
    /// Whether there are contexts that the tables lack.
    has_new_contexts: bool,
    tables: Option<Arc<LogTables>>,
    others: Vec<Note>,
    recording: Option<Note>,
    usage: BTreeMap<DeviceId, Reports>,
    sampling: BTreeMap<DeviceId, u64>,
    /// The sampling interval of devices without one of their own.
    sample_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Reports {
    last: UsageNote,
    highest: UsageNote,
}

impl KeptNotes {
    fn take(&mut self, note: Note) {
        match note {
            Note::Context { .. } => {
                self.contexts.push(note);
                self.has_new_contexts = true;
            }
            Note::Usage { device, reports } => {
                for report in reports {
                    let kept = self
                        .usage
                        .entry(DeviceId(device))
                        .or_insert(Reports { last: report, highest: report });
                    if report.ticks >= kept.last.ticks {
                        kept.last = report;
                    }
                    if report.report.used_bytes > kept.highest.report.used_bytes {
                        kept.highest = report;
                    }
                }
            }
            Note::Recording(options) => {
                self.sample_bytes = options.sample_bytes;
                self.recording = Some(note);
            }
            Note::Sampling { device, bytes } => drop(self.sampling.insert(DeviceId(device), bytes)),
            Note::Mapped { .. }
            | Note::Modules { .. }
            | Note::Source { .. }
            | Note::Device { .. }
            | Note::Code(_)
            | Note::Settings(_) => self.others.push(note),
            Note::Scope { .. } | Note::Annotation { .. } | Note::Base { .. } | Note::Resident { .. } => {}
        }
    }

    /// Returns the mean bytes between two recorded ones; 0 if all blocks of a device are recorded.
    fn sample_bytes_of(&self, device: DeviceId) -> u64 {
        self.sampling.get(&device).copied().unwrap_or(self.sample_bytes)
    }

    /// Returns what a snapshot of sums is made of. What blocks stand for is in the sums already.
    fn all(&self) -> Vec<Note> {
        let mut all = self.others.clone();
        all.extend(self.recording.iter().cloned().map(|note| match note {
            Note::Recording(mut options) => {
                options.sample_bytes = 0;
                Note::Recording(options)
            }
            other => other,
        }));
        for (device, Reports { last, highest }) in &self.usage {
            all.push(Note::Usage { device: device.0, reports: vec![*highest, *last] });
        }
        all
    }
}

impl FollowedTape {
    /// Opens a tape and takes its state. The events of the file count too if `from_start`.
    ///
    /// # Errors
    /// As [`Contents::read`].
    pub(crate) fn attach(path: &Path, from_start: bool) -> Result<FollowedTape> {
        let file = open_plain(path).map_err(|error| Error::io("cannot read the tape", path, error))?;
        let mut seen = Seen::default();
        let header = Contents::news(&file, path, &mut seen, false)?;
        let mut follow = FollowedTape {
            path: path.to_owned(),
            file,
            seen,
            scale: scale(&header),
            header,
            stacks: SeededMap::default(),
            notes: KeptNotes::default(),
            devices: BTreeMap::new(),
            n_anew: 0,
        };
        follow.begin(!from_start)?;
        Ok(follow)
    }

    /// Reads what is new.
    ///
    /// # Errors
    /// As [`Contents::read`].
    pub(crate) fn look(&mut self) -> Result<()> {
        let has_ended_before = self.header.n_elsewhere > 0;
        let mut news = self.news(false)?;
        let has_ended = news.n_elsewhere > 0;
        // A device whose recording begins later begins with a list of its own.
        let is_of_new_device = base_notes(&news).any(|(device, _)| !self.devices.contains_key(&device));
        let is_behind = self.is_behind(&news);
        if is_behind || is_of_new_device || has_ended && !has_ended_before {
            self.n_anew += u64::from(is_behind);
            return self.begin(false);
        }
        if has_ended {
            // Later events are in the memory of the process alone.
            news.chunks.clear();
        }
        self.take(news);
        self.apply();
        Ok(())
    }

    /// Takes the state. Events count from here on if `counts_from_here`, or from where they were counted before.
    fn begin(&mut self, counts_from_here: bool) -> Result<()> {
        for attempt in 1..=ATTEMPTS {
            (self.seen, self.notes) = (Seen::default(), KeptNotes::default());
            self.stacks.clear();
            self.header.problems.clear();
            let mut first = self.news(true)?;
            let counts = std::mem::take(&mut self.devices);
            for base in std::mem::take(&mut first.bases) {
                self.devices.insert(base.device, FollowedState::of(&base));
            }
            for (device, before) in counts {
                self.device(device).go_on_from(&before);
            }
            let lists: Vec<(DeviceId, u64)> = base_notes(&first).collect();
            self.take(first);
            let second = self.news(false)?;
            // Nothing was dropped while the first was read, and its last list was read whole.
            let is_whole = lists.into_iter().chain(base_notes(&second)).all(|(device, until)| {
                self.devices.get(&device).is_some_and(|followed| until <= followed.base())
            });
            if is_whole || attempt == ATTEMPTS {
                if !is_whole {
                    self.header.problems.push(
                        "the process dropped events faster than they could be read; the blocks in use may be wrong"
                            .into(),
                    );
                }
                self.devices.values_mut().for_each(FollowedState::begin);
                if counts_from_here {
                    self.devices.values_mut().for_each(FollowedState::count_from_here);
                }
                self.take(second);
                self.apply();
                return Ok(());
            }
        }
        Ok(())
    }

    fn news(&mut self, has_rows: bool) -> Result<Contents> {
        Contents::news(&self.file, &self.path, &mut self.seen, has_rows)
    }

    /// Returns whether events may have left the file before they were read, or came so late that later ones are applied.
    fn is_behind(&self, news: &Contents) -> bool {
        let is_further = |(device, until): (DeviceId, u64)| {
            self.devices.get(&device).is_some_and(|followed| followed.is_behind(until))
        };
        let is_late = |device: DeviceId, words: &Words| {
            self.devices.get(&device).is_some_and(|followed| words[1] <= followed.applied())
        };
        base_notes(news).any(is_further)
            || news.chunks.iter().any(|chunk| chunk.events.iter().any(|words| is_late(chunk.device, words)))
    }

    fn device(&mut self, device: DeviceId) -> &mut FollowedState {
        self.devices.entry(device).or_default()
    }

    fn take(&mut self, mut news: Contents) {
        for stack in std::mem::take(&mut news.stacks) {
            self.stacks.insert(stack.number, stack);
        }
        std::mem::take(&mut news.notes).into_iter().for_each(|note| self.notes.take(note));
        for chunk in std::mem::take(&mut news.chunks) {
            self.device(chunk.device).take(&chunk.events);
        }
        if news.latest.0 < self.header.latest.0 {
            news.latest = self.header.latest;
        }
        news.problems.extend(std::mem::take(&mut self.header.problems));
        news.problems.sort();
        news.problems.dedup();
        self.scale = scale(&news);
        self.header = Contents { bases: Vec::new(), ..news };
    }

    /// Applies the events that are whole.
    fn apply(&mut self) {
        let is_at_end = !self.header.is_running || self.header.is_closed;
        let tables = self.tables();
        for (device, followed) in &mut self.devices {
            let sample_bytes = self.notes.sample_bytes_of(*device);
            let (until, due) = followed.due(is_at_end);
            if !due.is_empty() {
                followed.sample_by(sample_bytes);
                let (before, new) = due.split_at(followed.n_counted(&due));
                for (is_new, events) in [(false, before), (true, new)] {
                    for words in events {
                        let words = known(*words, tables.n_contexts(), usize::MAX);
                        followed.apply(&entry(&words, &tables), is_new);
                    }
                }
            }
            followed.end_apply(until);
        }
    }

    /// Returns what decodes events: its times are those of the last look.
    fn tables(&mut self) -> Arc<LogTables> {
        if let Some(tables) = &self.notes.tables
            && !self.notes.has_new_contexts
        {
            let contexts = tables.contexts.clone();
            return Arc::new(LogTables { contexts, scale: self.scale });
        }
        let notes = Notes::of(self.notes.contexts.clone());
        let contexts = contexts_of(notes.contexts, &mut self.header.problems);
        let tables = Arc::new(LogTables { contexts, scale: self.scale });
        (self.notes.tables, self.notes.has_new_contexts) = (Some(tables.clone()), false);
        tables
    }

    pub(crate) fn header(&self) -> &Contents {
        &self.header
    }

    pub(crate) fn n_anew(&self) -> u64 {
        self.n_anew
    }

    /// Returns the devices with events, lists or reports.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (DeviceId, Option<&FollowedState>)> {
        let mut all: Vec<DeviceId> = self.devices.keys().chain(self.notes.usage.keys()).copied().collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().map(|device| (device, self.devices.get(&device)))
    }

    /// Returns the last and the highest report of a device.
    pub(crate) fn reports(&self, device: DeviceId) -> Option<[UsageReport; 2]> {
        self.notes.usage.get(&device).map(|reports| [reports.last.report, reports.highest.report])
    }

    /// Returns the name of a device; empty if it is not known.
    pub(crate) fn name_of(&self, device: DeviceId) -> &str {
        let named = |note: &Note| matches!(note, Note::Device { device: of, .. } if *of == device.0);
        match self.notes.others.iter().rev().find(|note| named(note)) {
            Some(Note::Device { name, .. }) => name,
            _ => "",
        }
    }

    /// Returns a tape with the stacks that hold memory, and for each device one block or segment for each stack.
    pub(crate) fn sums(&self, held: &BTreeMap<DeviceId, HeldSums>, names: SharedNames) -> PastTape {
        let mut numbers: BTreeMap<StackId, u32> = BTreeMap::new();
        let mut stacks = Vec::new();
        let mut renumber = |stack: StackId| match self.stacks.get(&stack.0) {
            _ if stack == StackId::NONE => StackId::NONE,
            None => StackId::NONE,
            Some(row) => StackId(*numbers.entry(stack).or_insert_with(|| {
                let number = stacks.len() as u32;
                stacks.push(StackRow { number, ..row.clone() });
                number
            })),
        };
        let base = |(device, held): (&DeviceId, &HeldSums)| Base {
            device: *device,
            until: 0,
            horizon: 0,
            n_missing: 0,
            segments: held.segments(&mut renumber),
            sums: RunSums::default(),
        };
        let bases = held.iter().map(base).collect();
        let devices = PastDevices { bases, chunks: Vec::new(), is_sound: true };
        // No number is missing among those that were given here.
        let problems = &mut Vec::new();
        PastTape::new(Notes::of(self.notes.all()), self.scale, stacks, Some(names), devices, problems)
    }
}

fn base_notes(contents: &Contents) -> impl Iterator<Item = (DeviceId, u64)> {
    contents.notes.iter().filter_map(|note| match note {
        Note::Base { device, until, .. } => Some((DeviceId(*device), *until)),
        _ => None,
    })
}
