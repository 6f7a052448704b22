//! Adds to a window the names of the blocks that are in use at its start.
//!
//! A block keeps its name, so a window that starts after the `annotate` entry of a block in use starts with that entry,
//! at the time of the window's first event.

use std::{io, ops::Range};

use super::{trace::Trace, window::Windowed};
use crate::{
    model::{RecordedDevices, RecordedSettings, Snapshot, SnapshotSource, TraceEntry},
    words::{Action, Address, DeviceId, SeededMap},
};

/// A window whose traces begin with the names of blocks.
pub(super) struct Named<'a> {
    window: Windowed<'a>,
    /// By device, the entries before those of the window.
    names: Vec<Vec<TraceEntry>>,
}

impl<'a> Named<'a> {
    /// Looks for names before the window, unless the source has none.
    pub(super) fn new(window: Windowed<'a>) -> Named<'a> {
        let base = &*window.base;
        let has_names = base.use_counts().actions().any(|(action, _)| action == Action::Annotate);
        let devices = DeviceId::first(window.ranges.len()).zip(&window.ranges);
        let names = match has_names {
            true => devices.map(|(device, range)| before(Trace::Source(base, device), range)).collect(),
            false => vec![Vec::new(); window.ranges.len()],
        };
        let mut named = Named { window, names };
        named.count_again();
        named
    }

    /// Subtracts the restored names from the number of events that the window leaves out.
    fn count_again(&mut self) {
        if self.names.iter().all(Vec::is_empty) {
            return;
        }
        let settings = RecordedDevices::new(&self.window.head);
        let recorded = |(device, names): (DeviceId, &Vec<TraceEntry>)| {
            let recorded = settings.of(device);
            let n_cut = recorded.n_cut.saturating_sub(names.len() as u64);
            (device, RecordedSettings { n_cut, ..recorded })
        };
        let recorded: Vec<_> = DeviceId::first(self.names.len()).zip(&self.names).map(recorded).collect();
        RecordedSettings::store(&mut self.window.head, &recorded);
    }

    fn names(&self, device: DeviceId) -> &[TraceEntry] {
        device.get_in(&self.names).map_or(&[], |names| names)
    }
}

/// Returns the entries before a range that name blocks in use at its start.
fn before(trace: Trace<'_>, range: &Range<usize>) -> Vec<TraceEntry> {
    if range.is_empty() {
        return Vec::new();
    }
    let mut names: SeededMap<Address, Vec<(usize, TraceEntry)>> = SeededMap::default();
    let mut number = 0;
    trace.each(0..range.start, |entry| {
        match entry.action {
            Some(Action::Annotate) => names.entry(entry.address).or_default().push((number, *entry)),
            // The block at the address, and with it its name, is gone.
            Some(Action::Alloc | Action::FreeCompleted) if !names.is_empty() => {
                names.remove(&entry.address);
            }
            _ => {}
        }
        number += 1;
    });
    let mut names: Vec<(usize, TraceEntry)> = names.into_values().flatten().collect();
    names.sort_unstable_by_key(|(number, _)| *number);
    let first_us = trace.time_us(range.start).filter(|time_us| *time_us != 0);
    let moved = |entry: TraceEntry| TraceEntry { time_us: first_us.unwrap_or(entry.time_us), ..entry };
    names.into_iter().map(|(_, entry)| moved(entry)).collect()
}

impl SnapshotSource for Named<'_> {
    fn head(&self) -> &Snapshot {
        self.window.head()
    }

    fn n_traces(&self) -> usize {
        self.window.n_traces()
    }

    fn for_each_entry(&self, device: DeviceId, look: &mut dyn FnMut(&TraceEntry)) {
        self.names(device).iter().for_each(&mut *look);
        self.window.for_each_entry(device, look);
    }

    fn n_entries(&self, device: DeviceId) -> usize {
        self.names(device).len() + self.window.n_entries(device)
    }

    fn for_each_entry_in(&self, device: DeviceId, range: Range<usize>, look: &mut dyn FnMut(&TraceEntry)) {
        let names = self.names(device);
        names.iter().take(range.end).skip(range.start).for_each(&mut *look);
        let of_window = |number: usize| number.saturating_sub(names.len());
        self.window.for_each_entry_in(device, of_window(range.start)..of_window(range.end), look);
    }

    fn check(&self) -> io::Result<()> {
        self.window.check()
    }
}
