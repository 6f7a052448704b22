//! A snapshot whose events are still where they were recorded, and that takes no memory for them.

use crate::recorder::{ContextId, Entry, Facts, Log, Tally};
use memreel_snapshot::model::{ShapeId, Snapshot, SnapshotSource, StackIndex, TraceEntry, UseCounts, traces};
use memreel_snapshot::words::{Action, DeviceId, StackId};

/// The result of [`collect_lazily`](super::collect_lazily): segments, names, and the events as 32 bytes each on their
/// tapes.
///
/// A process that is out of memory can write it: a million events take a hundredth of what they take in a [`Snapshot`].
///
/// ```
/// use memreel::{pickle, recorder::{Recording, Recorder}, snapshot};
///
/// let recorder = Recorder::new();
/// recorder.record_history(&Recording::all());
/// let recorded = snapshot::collect_lazily(&recorder, [&recorder.ledger(0)], Default::default());
/// let mut file = Vec::new();
/// pickle::write(&recorded, &mut file)?;
/// assert_eq!(file, pickle::to_vec(&recorded.into_snapshot()));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TapeSnapshot {
    head: Snapshot,
    /// By device; inventories may share one.
    logs: Vec<Vec<Log>>,
    facts: Facts,
    stacks: NamedStacks,
    shapes: EntryShapes,
    /// Of all logs.
    tally: Tally,
}

impl TapeSnapshot {
    pub(super) fn new(
        head: Snapshot,
        logs: Vec<Vec<Log>>,
        facts: Facts,
        stacks: NamedStacks,
        shapes: EntryShapes,
        tally: Tally,
    ) -> TapeSnapshot {
        TapeSnapshot { head, logs, facts, stacks, shapes, tally }
    }

    /// Returns whether options left out events that viewers need while this snapshot was recorded:
    /// [`Recording::min_size`](crate::recorder::Recording::min_size),
    /// [`Recording::sample_every`](crate::recorder::Recording::sample_every), or some of
    /// [`Recording::skip_actions`](crate::recorder::Recording::skip_actions).
    #[must_use]
    pub fn has_gaps(&self) -> bool {
        self.facts.has_gaps
    }

    /// Sets how the recorded program failed.
    pub(super) fn set_program_failure(&mut self, failure: &str) {
        self.head.set_program_failure(failure);
    }

    /// Returns the snapshot with all its events.
    #[must_use]
    pub fn into_snapshot(mut self) -> Snapshot {
        self.head.device_traces = traces(&self);
        self.head
    }

    #[inline]
    fn entry(&self, Entry { event, time_us, context, .. }: Entry) -> TraceEntry {
        let stack = self.stacks.get(event.stack);
        TraceEntry {
            address: event.address,
            size: event.size_bytes,
            stream: event.stream,
            time_us: i64::try_from(time_us).unwrap_or(i64::MAX),
            stack,
            shape: self.shapes.of(context, Tally::kind(event.action == Action::Oom, stack.is_some())),
            action: Some(event.action),
        }
    }
}

impl SnapshotSource for TapeSnapshot {
    fn head(&self) -> &Snapshot {
        &self.head
    }

    fn n_traces(&self) -> usize {
        self.logs.len()
    }

    fn for_each_entry(&self, device: DeviceId, look: &mut dyn FnMut(&TraceEntry)) {
        for log in device.get_in(&self.logs).into_iter().flatten() {
            log.entries(&self.facts.tables).for_each(|entry| look(&self.entry(entry)));
        }
    }

    fn n_entries(&self, device: DeviceId) -> usize {
        device.get_in(&self.logs).into_iter().flatten().map(Log::len).sum()
    }

    /// Returns the counts from when the events were first read, which are not in the order of first use.
    fn use_counts(&self) -> UseCounts {
        let mut uses = UseCounts::default();
        Action::ALL.iter().zip(self.tally.actions).for_each(|(action, n)| uses.add_action(*action, n));
        for (stack, n) in (0..).map(StackId).zip(&self.tally.stacks) {
            if let Some(name) = self.stacks.get(stack) {
                uses.add_stack(name, *n);
            }
        }
        for (context, kinds) in (0..).map(ContextId).zip(&self.tally.contexts) {
            (0..).zip(kinds).for_each(|(kind, n)| uses.add_shape(self.shapes.of(context, kind), *n));
        }
        uses
    }
}

/// The stacks of a snapshot by their numbers in the recorder.
#[derive(Debug, Default)]
pub(super) struct NamedStacks(Vec<Option<StackIndex>>);

impl NamedStacks {
    #[inline(always)]
    pub(super) fn get(&self, stack: StackId) -> Option<StackIndex> {
        *self.0.get(stack.0 as usize)?
    }

    pub(super) fn set(&mut self, stack: StackId, name: StackIndex) {
        let number = stack.0 as usize;
        if number >= self.0.len() {
            self.0.resize(number + 1, None);
        }
        self.0[number] = Some(name);
    }
}

/// The shapes of entries, which differ by context, by whether they are `oom`, and by whether they have frames.
#[derive(Debug)]
pub(super) struct EntryShapes(Vec<[Option<ShapeId>; 4]>);

impl EntryShapes {
    pub(super) fn new(n_contexts: usize) -> EntryShapes {
        EntryShapes(vec![[None; 4]; n_contexts.max(1)])
    }

    /// The shapes of a context, by [`Tally::kind`].
    pub(super) fn of_mut(&mut self, context: ContextId) -> &mut [Option<ShapeId>; 4] {
        let place = self.place(context);
        &mut self.0[place]
    }

    #[inline(always)]
    fn of(&self, context: ContextId, kind: usize) -> ShapeId {
        self.0[self.place(context)][kind].unwrap_or(ShapeId(0))
    }

    /// A context that was numbered later belongs to no event that is kept.
    #[inline(always)]
    fn place(&self, context: ContextId) -> usize {
        (context.0 as usize).min(self.0.len() - 1)
    }
}
