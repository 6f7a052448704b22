//! The sources from which a snapshot file can be written: a model in memory, or events that come one by one.

use std::{
    io,
    ops::{Deref, Range},
};

use super::{Snapshot, TraceEntry, UseCounts};
use crate::words::DeviceId;

/// A source of a snapshot file: everything but the events of devices at once, and the events one by one.
///
/// A [`Snapshot`] has everything in memory, a `memreel::snapshot::TapeSnapshot` the tapes, and a file that
/// is opened for reading almost nothing.
pub trait SnapshotSource {
    /// Returns everything but the devices' events; its `device_traces` are ignored.
    fn head(&self) -> &Snapshot;

    /// The number of traces: devices 0 to `n_traces() - 1` can have events.
    fn n_traces(&self) -> usize;

    /// Calls `look` with each event of a device, oldest first, the same ones every time. A device without a
    /// trace has no events.
    fn for_each_entry(&self, device: DeviceId, look: &mut dyn FnMut(&TraceEntry));

    /// The number of events of a device.
    fn n_entries(&self, device: DeviceId) -> usize {
        let mut n_entries = 0;
        self.for_each_entry(device, &mut |_| n_entries += 1);
        n_entries
    }

    /// [`SnapshotSource::for_each_entry`] for the events whose numbers, from 0, are in a range; its end may
    /// be beyond the last.
    fn for_each_entry_in(&self, device: DeviceId, range: Range<usize>, look: &mut dyn FnMut(&TraceEntry)) {
        let mut number = 0;
        self.for_each_entry(device, &mut |entry| {
            if range.contains(&number) {
                look(entry);
            }
            number += 1;
        });
    }

    /// What the events of all devices use.
    fn use_counts(&self) -> UseCounts {
        counted(self)
    }

    /// Returns an error unless all events were delivered; called after they were read.
    ///
    /// # Errors
    /// Why some did not, such as a file that was changed meanwhile.
    fn check(&self) -> io::Result<()> {
        Ok(())
    }

    /// Returns the number of all events, including those of pinned host memory.
    fn n_events(&self) -> usize {
        let of_devices: usize = DeviceId::first(self.n_traces()).map(|device| self.n_entries(device)).sum();
        of_devices + self.head().host_traces.len()
    }

    /// Returns a model in memory, with all events.
    ///
    /// # Errors
    /// The errors of [`SnapshotSource::check`].
    fn to_snapshot(&self) -> io::Result<Snapshot> {
        let snapshot = collected(self);
        self.check().map(|()| snapshot)
    }
}

/// Counts [`SnapshotSource::use_counts`] by reading every event.
pub(crate) fn counted<D: SnapshotSource + ?Sized>(document: &D) -> UseCounts {
    let mut uses = UseCounts::default();
    for device in DeviceId::first(document.n_traces()) {
        document.for_each_entry(device, &mut |entry| uses.add(entry));
    }
    uses
}

/// All that a document hands out.
pub(crate) fn collected<D: SnapshotSource + ?Sized>(document: &D) -> Snapshot {
    let mut snapshot = document.head().without_traces();
    snapshot.device_traces = traces(document);
    snapshot
}

/// The events of every device, in memory.
pub fn traces<D: SnapshotSource + ?Sized>(document: &D) -> Vec<Vec<TraceEntry>> {
    let trace = |device| {
        let mut trace = Vec::with_capacity(document.n_entries(device));
        document.for_each_entry(device, &mut |entry| trace.push(*entry));
        trace
    };
    DeviceId::first(document.n_traces()).map(trace).collect()
}

impl SnapshotSource for Snapshot {
    fn head(&self) -> &Snapshot {
        self
    }

    fn n_traces(&self) -> usize {
        self.device_traces.len()
    }

    fn for_each_entry(&self, device: DeviceId, look: &mut dyn FnMut(&TraceEntry)) {
        self.trace(device).iter().for_each(look);
    }

    fn n_entries(&self, device: DeviceId) -> usize {
        self.trace(device).len()
    }

    fn for_each_entry_in(&self, device: DeviceId, range: Range<usize>, look: &mut dyn FnMut(&TraceEntry)) {
        let trace = self.trace(device);
        let end = range.end.min(trace.len());
        trace[range.start.min(end)..end].iter().for_each(look);
    }
}

/// A reference to a source, a box of one, and a type that is a source inside.
impl<D: Deref<Target: SnapshotSource> + ?Sized> SnapshotSource for D {
    fn head(&self) -> &Snapshot {
        (**self).head()
    }

    fn n_traces(&self) -> usize {
        (**self).n_traces()
    }

    fn for_each_entry(&self, device: DeviceId, look: &mut dyn FnMut(&TraceEntry)) {
        (**self).for_each_entry(device, look);
    }

    fn n_entries(&self, device: DeviceId) -> usize {
        (**self).n_entries(device)
    }

    fn for_each_entry_in(&self, device: DeviceId, range: Range<usize>, look: &mut dyn FnMut(&TraceEntry)) {
        (**self).for_each_entry_in(device, range, look);
    }

    fn use_counts(&self) -> UseCounts {
        (**self).use_counts()
    }

    fn check(&self) -> io::Result<()> {
        (**self).check()
    }
}

impl Snapshot {
    /// A copy of all but the devices' events.
    pub fn without_traces(&self) -> Snapshot {
        Snapshot {
            segments: self.segments.clone(),
            device_traces: Vec::new(),
            host_segments: self.host_segments.clone(),
            host_traces: self.host_traces.clone(),
            external_annotations: self.external_annotations.clone(),
            stacks: self.stacks.clone(),
            shapes: self.shapes.clone(),
            shape: self.shape.clone(),
            top_level: self.top_level,
        }
    }
}
