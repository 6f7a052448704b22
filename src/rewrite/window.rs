//! A piece of the history, with the state that it begins and ends with.

use std::{cmp::Reverse, io, ops::Range};

use super::{at::segments_at, trace::Trace};
use crate::{
    error::{Error, Result},
    event::DeviceId,
    history::scope_pairs,
    snapshot::{Annotation, Snapshot, SnapshotSource, TraceEntry},
};

/// Which piece of the history to keep.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Window {
    /// Events of one device, by their number from 0. Other devices keep what happened at these times.
    Events {
        /// Whose events are counted; `None` is the device with the most.
        device: Option<DeviceId>,
        /// Which events.
        range: Range<usize>,
    },
    /// Events from a time on and before another, in microseconds since the Unix epoch; in a trace that
    /// is not in the order of its times, from the first such event to the last.
    Time(Range<i64>),
    /// From the beginning of a scope to its end.
    Scope {
        /// Its name, as `user_metadata` or `external_annotations` have it.
        name: String,
        /// Which of the scopes of this name, from 0; `None` is from the first to the last.
        nth: Option<usize>,
    },
}

/// A window of a document: its events, and the segments as they were at its end.
///
/// What lived when it began needs no event: a viewer finds it in the segments
/// or at its free, as after a ring that wrapped.
pub(super) struct Cut<'a> {
    base: Box<dyn SnapshotSource + 'a>,
    head: Snapshot,
    /// The events that are kept, by device.
    ranges: Vec<Range<usize>>,
}

impl<'a> Cut<'a> {
    pub(super) fn of(base: Box<dyn SnapshotSource + 'a>, window: &Window) -> Result<Cut<'a>> {
        let ranges = ranges(&*base, window)?;
        let traces = || DeviceId::first(ranges.len()).map(|device| Trace::Of(&*base, device));
        let times = traces().zip(&ranges).filter_map(|(trace, range)| times(trace, range));
        let times = times.reduce(|one, other| one.start.min(other.start)..one.end.max(other.end));
        let mut head = base.head().without_traces();
        let whole = std::mem::take(&mut head.segments);
        for ((device, trace), range) in (0..).zip(traces()).zip(&ranges) {
            let segments = segments_at(&whole, DeviceId(device), trace, range.end, &mut head.shapes);
            head.segments.extend(segments);
        }
        // Segments of devices without a trace have no history to cut.
        let n_devices = i64::try_from(ranges.len()).unwrap_or(i64::MAX);
        head.segments.extend(whole.into_iter().filter(|segment| !(0..n_devices).contains(&segment.device.0)));
        if let Some(times) = times {
            cut_host(&mut head, &times);
            keep_annotations(&mut head.external_annotations, &times);
        }
        Ok(Cut { base, head, ranges })
    }
}

fn cut_host(head: &mut Snapshot, times: &Range<i64>) {
    let trace = Trace::Held(&head.host_traces);
    let range = between(trace, times);
    head.host_segments = segments_at(&head.host_segments, DeviceId::HOST, trace, range.end, &mut head.shapes);
    head.host_traces.truncate(range.end);
    head.host_traces.drain(..range.start);
}

impl SnapshotSource for Cut<'_> {
    fn head(&self) -> &Snapshot {
        &self.head
    }

    fn n_traces(&self) -> usize {
        self.ranges.len()
    }

    fn for_each_entry(&self, device: DeviceId, look: &mut dyn FnMut(&TraceEntry)) {
        if let Some(range) = device.of(&self.ranges) {
            self.base.for_each_entry_in(device, range.clone(), look);
        }
    }

    fn n_entries(&self, device: DeviceId) -> usize {
        device.of(&self.ranges).map_or(0, Range::len)
    }

    fn for_each_entry_in(&self, device: DeviceId, range: Range<usize>, look: &mut dyn FnMut(&TraceEntry)) {
        let Some(&Range { start, end }) = device.of(&self.ranges) else { return };
        let of_base = start.saturating_add(range.start)..start.saturating_add(range.end).min(end);
        self.base.for_each_entry_in(device, of_base, look);
    }

    fn check(&self) -> io::Result<()> {
        self.base.check()
    }
}

/// The times of events, the last one's included.
fn times(trace: Trace<'_>, range: &Range<usize>) -> Option<Range<i64>> {
    let last = range.end.checked_sub(1).filter(|last| range.contains(last))?;
    Some(trace.time_us(range.start)?..trace.time_us(last)?.saturating_add(1))
}

/// The events of these times: from the first that is not before them to the last that is not after.
fn between(trace: Trace<'_>, times: &Range<i64>) -> Range<usize> {
    let (mut number, mut start, mut end) = (0, None, 0);
    trace.each(0..usize::MAX, |entry| {
        if start.is_none() && entry.time_us >= times.start {
            start = Some(number);
        }
        number += 1;
        if entry.time_us < times.end {
            end = number;
        }
    });
    let start = start.unwrap_or(number);
    start..end.max(start)
}

/// The window's events of every device.
fn ranges(document: &dyn SnapshotSource, window: &Window) -> Result<Vec<Range<usize>>> {
    let devices = DeviceId::first(document.n_traces());
    match window {
        Window::Time(times) => {
            Ok(devices.map(|device| between(Trace::Of(document, device), times)).collect())
        }
        Window::Events { device, range } => {
            let n_traces = document.n_traces();
            let length = |device: &DeviceId| (document.n_entries(*device), Reverse(*device));
            let device = device.or_else(|| devices.max_by_key(length)).unwrap_or_default();
            if device.index().is_none_or(|index| index >= n_traces) {
                let what = format!("there is no device {device}: the file has {n_traces} traces");
                return Err(Error::misuse(what));
            }
            Ok(around(document, device, range))
        }
        Window::Scope { name, nth } => scope(document, name, *nth),
    }
}

/// These events of a device, and what others did at their times.
fn around(document: &dyn SnapshotSource, device: DeviceId, range: &Range<usize>) -> Vec<Range<usize>> {
    let trace = Trace::Of(document, device);
    let start = range.start.min(trace.len());
    let range = start..range.end.min(trace.len()).max(start);
    // Without an event it is the state alone, of the time of the next event.
    let next = || trace.time_us(range.start).unwrap_or(i64::MAX);
    let times = times(trace, &range).unwrap_or_else(|| next()..next());
    let of = |other| match other == device {
        true => range.clone(),
        false => between(Trace::Of(document, other), &times),
    };
    DeviceId::first(document.n_traces()).map(of).collect()
}

fn scope(document: &dyn SnapshotSource, name: &str, nth: Option<usize>) -> Result<Vec<Range<usize>>> {
    let head = document.head();
    let spans: Vec<Range<i64>> = scopes(&head.external_annotations)
        .into_iter()
        .filter(|(annotation, _)| &*annotation.name == name)
        .map(|(_, times)| times)
        .collect();
    if !spans.is_empty() {
        let span = match nth {
            Some(nth) => spans.get(nth).cloned().ok_or_else(|| {
                Error::misuse(format!("there is no scope {name:?} number {nth}: there are {}", spans.len()))
            })?,
            None => spans[0].start..spans.iter().map(|span| span.end).max().unwrap_or_default(),
        };
        return ranges(document, &Window::Time(span));
    }
    let in_scope: Vec<bool> =
        head.shapes.iter().map(|(_, shape)| shape.text("user_metadata") == Some(name)).collect();
    for device in DeviceId::first(document.n_traces()) {
        let runs = runs(Trace::Of(document, device), |entry| in_scope[entry.shape.index()]);
        let Some(last) = runs.last() else { continue };
        let range = match nth {
            Some(nth) => runs.get(nth).cloned().ok_or_else(|| {
                Error::misuse(format!("there is no scope {name:?} number {nth}: there are {}", runs.len()))
            })?,
            None => runs[0].start..last.end,
        };
        return Ok(around(document, device, &range));
    }
    Err(Error::misuse(format!("no event is in a scope {name:?}")))
}

/// Where a condition holds without a break.
fn runs(trace: Trace<'_>, holds: impl Fn(&TraceEntry) -> bool) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut number = 0;
    trace.each(0..usize::MAX, |entry| {
        if holds(entry) {
            match runs.last_mut() {
                Some(last) if last.end == number => last.end += 1,
                _ => runs.push(number..number + 1),
            }
        }
        number += 1;
    });
    runs
}

/// Returns every scope that began, in that order, with its times; one without an end lasts.
fn scopes(annotations: &[Annotation]) -> Vec<(&Annotation, Range<i64>)> {
    let begun = scope_pairs(annotations).into_iter().filter_map(|pair| {
        let start = &annotations[pair.start?];
        let end_us = pair.end.map_or(i64::MAX, |end| annotations[end].time_us);
        Some((start, start.time_us..end_us))
    });
    begun.collect()
}

/// Keeps the scopes that touch a time, with both their ends.
fn keep_annotations(annotations: &mut Vec<Annotation>, times: &Range<i64>) {
    // What is neither a start nor an end is in no pair; it goes by its own time.
    let mut is_kept: Vec<bool> =
        annotations.iter().map(|annotation| annotation.time_us >= times.start).collect();
    for pair in scope_pairs(annotations) {
        let start_us = pair.start.map_or(i64::MIN, |start| annotations[start].time_us);
        let end_us = pair.end.map_or(i64::MAX, |end| annotations[end].time_us);
        let touches = start_us < times.end && end_us >= times.start;
        [pair.start, pair.end].into_iter().flatten().for_each(|index| is_kept[index] = touches);
    }
    let mut is_kept = is_kept.into_iter();
    annotations.retain(|_| is_kept.next().unwrap_or(true));
}
