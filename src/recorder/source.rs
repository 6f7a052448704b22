//! What a snapshot's events and their names are from: a recorder, or a tape that was read.
#![forbid(unsafe_code)]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use super::{
    handle::Recorder,
    log::{Cut, LogTables},
    mapped::MappedRange,
    recording::Recording,
    scope_names::Annotation,
    track::Track,
    usage::Usage,
};
use crate::{
    process::guard::Guard,
    stack::{SourceFrame, StackParts, Symbolizer, with_kept_names},
};
use memreel_lockfree::sync::lock;
use memreel_snapshot::words::{
    Action, Address, DeviceId, DeviceUsage, Event, PoolId, ResidentReport, StackId, StreamId,
};

/// What has recorded.
pub(crate) trait Source {
    /// Returns the events of a device.
    fn events(&self, device: DeviceId) -> Box<dyn Events>;

    /// Returns what else there is; it decodes events that were cut before.
    fn facts(&self) -> Facts;

    /// Returns the words of a stack: those of the frame source, and the return addresses.
    fn stack_parts(&self, stack: StackId) -> StackParts;

    /// Returns the frames of a word of the frame source, and whether they are Python's.
    fn name_word(&self, word: usize) -> (Vec<SourceFrame>, bool);

    /// Calls `name` with what names return addresses.
    fn with_names(&self, name: &mut dyn FnMut(&mut Symbolizer));
}

/// What was recorded beside events and stacks.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) tables: LogTables,
    pub(crate) options: Recording,
    /// Whether options may have left out events that viewers need since the events were last erased.
    pub(crate) has_gaps: bool,
    /// All scope paths by number.
    pub(crate) scope_paths: Vec<Arc<str>>,
    /// The starts and ends of scopes with their times in microseconds, oldest first.
    pub(crate) annotations: Vec<(Annotation, u64)>,
    /// How many captures found the table of stacks full.
    pub(crate) n_stacks_refused: u64,
    /// What devices reported, by device.
    pub(crate) usage: Vec<DeviceUsage>,
    /// The reports of the process's resident memory, oldest first.
    pub(crate) resident: Vec<ResidentReport>,
    /// What the program mapped itself, with the microseconds since the Unix epoch from and until which each range was there.
    pub(crate) mapped: Vec<(MappedRange, [u64; 2])>,
}

/// The events of one device.
pub(crate) trait Events {
    /// Returns the events until now.
    fn cut(&self) -> Cut;

    /// Records that a snapshot is taken while blocks of `active_bytes` bytes are in use.
    fn record_snapshot(&self, active_bytes: u64);
}

impl Source for Recorder {
    fn events(&self, device: DeviceId) -> Box<dyn Events> {
        Box::new(self.track(device))
    }

    fn facts(&self) -> Facts {
        let _guard = Guard::enter();
        let scale = self.shared.clock.scale();
        // One lock after the other.
        let timed = |annotation: &Annotation| (*annotation, scale.micros(annotation.at));
        let annotations = lock(&self.shared.annotations).iter().map(timed).collect();
        let scope_paths = lock(&self.shared.scopes).all();
        let contexts = lock(&self.shared.contexts).all();
        let reports = |usage: &Usage| (usage.all(scale), usage.resident(scale), usage.mapped(scale));
        let (usage, resident, mapped) = reports(&lock(&self.shared.usage));
        Facts {
            tables: LogTables { contexts, scale },
            options: self.history(),
            has_gaps: self.has_gaps(),
            scope_paths,
            annotations,
            n_stacks_refused: self.stack_counts().n_refused,
            usage,
            resident,
            mapped,
        }
    }

    fn stack_parts(&self, stack: StackId) -> StackParts {
        self.shared.stacks.parts(stack)
    }

    /// None without a frame source, and of a word whose name panics.
    fn name_word(&self, word: usize) -> (Vec<SourceFrame>, bool) {
        let Some(source) = self.shared.stacks.source() else { return Default::default() };
        catch_unwind(AssertUnwindSafe(|| (source.name(word), source.is_python(word)))).unwrap_or_default()
    }

    fn with_names(&self, name: &mut dyn FnMut(&mut Symbolizer)) {
        with_kept_names(name);
    }
}

impl Events for Track {
    fn cut(&self) -> Cut {
        Track::cut(self)
    }

    fn record_snapshot(&self, active_bytes: u64) {
        self.record_own(Event {
            action: Action::Snapshot,
            address: Address(0),
            size_bytes: active_bytes,
            stream: StreamId::DEFAULT,
            pool: PoolId::DEFAULT,
            stack: StackId::NONE,
        });
    }
}

/// The events of a tape, which get no more.
impl Events for Cut {
    fn cut(&self) -> Cut {
        self.clone()
    }

    fn record_snapshot(&self, _: u64) {}
}
