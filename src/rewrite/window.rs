//! A piece of the history, with the state that it begins and ends with.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::at::segments_at;
use crate::{
    error::{Error, Result},
    event::DeviceId,
    snapshot::{Annotation, Snapshot, Text, TraceEntry},
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
    /// Events from a time on and before another, in microseconds since the Unix epoch.
    Time(Range<i64>),
    /// From the beginning of a scope to its end.
    Scope {
        /// Its name, as `user_metadata` or `external_annotations` have it.
        name: String,
        /// Which of the scopes of this name, from 0; `None` is from the first to the last.
        nth: Option<usize>,
    },
}

/// Keeps a window: its events, and the segments as they were at its end.
///
/// What lived when it began needs no event: a viewer finds it in the segments
/// or at its free, as after a ring that wrapped.
pub(super) fn cut(snapshot: &mut Snapshot, window: &Window) -> Result<()> {
    let ranges = ranges(snapshot, window)?;
    let kept = ranges.iter().zip(&snapshot.device_traces);
    let times = kept.filter_map(|(range, trace)| times(&trace[range.clone()]));
    let times = times.reduce(|one, other| one.start.min(other.start)..one.end.max(other.end));
    let n_devices = i64::try_from(ranges.len()).unwrap_or(i64::MAX);
    let mut segments = Vec::new();
    for (device, range) in (0..).zip(&ranges) {
        let trace = &mut snapshot.device_traces[usize::try_from(device).unwrap_or_default()];
        segments.extend(segments_at(&snapshot.segments, device, trace, range.end, &mut snapshot.shapes));
        keep(trace, range.clone());
    }
    // Segments of devices without a trace have no history to cut.
    segments.extend(
        snapshot.segments.iter().filter(|segment| !(0..n_devices).contains(&segment.device)).cloned(),
    );
    snapshot.segments = segments;
    let Some(times) = times else { return Ok(()) };
    let host = between(&snapshot.host_traces, &times);
    snapshot.host_segments = segments_at(
        &snapshot.host_segments,
        HOST_DEVICE,
        &snapshot.host_traces,
        host.end,
        &mut snapshot.shapes,
    );
    keep(&mut snapshot.host_traces, host);
    keep_annotations(&mut snapshot.external_annotations, &times);
    Ok(())
}

/// The device of pinned host memory (snapshot-format.md 1.8).
const HOST_DEVICE: i64 = -1;

fn keep(trace: &mut Vec<TraceEntry>, range: Range<usize>) {
    trace.truncate(range.end);
    trace.drain(..range.start);
}

/// The times of events, the last one's included.
fn times(events: &[TraceEntry]) -> Option<Range<i64>> {
    Some(events.first()?.time_us..events.last()?.time_us.saturating_add(1))
}

/// Which events are of these times, in a trace that is in their order.
fn between(trace: &[TraceEntry], times: &Range<i64>) -> Range<usize> {
    let start = trace.partition_point(|entry| entry.time_us < times.start);
    let end = trace.partition_point(|entry| entry.time_us < times.end);
    start..end.max(start)
}

/// The window's events of every device.
fn ranges(snapshot: &Snapshot, window: &Window) -> Result<Vec<Range<usize>>> {
    let traces = &snapshot.device_traces;
    let of_times = |times: &Range<i64>| traces.iter().map(|trace| between(trace, times)).collect::<Vec<_>>();
    match window {
        Window::Time(times) => Ok(of_times(times)),
        Window::Events { device, range } => {
            let longest =
                || (0..traces.len()).max_by_key(|device| (traces[*device].len(), usize::MAX - device));
            let device = device.map(DeviceId::index).or_else(longest).unwrap_or(0);
            let trace = traces.get(device).ok_or_else(|| {
                Error::misuse(format!("there is no device {device}: the file has {} traces", traces.len()))
            })?;
            let range =
                range.start.min(trace.len())..range.end.min(trace.len()).max(range.start.min(trace.len()));
            let mut ranges = match times(&trace[range.clone()]) {
                Some(times) => of_times(&times),
                // No event at all: the state alone, of the time of the next event.
                None => {
                    let time = trace.get(range.start).map_or(i64::MAX, |entry| entry.time_us);
                    of_times(&(time..time))
                }
            };
            ranges[device] = range;
            Ok(ranges)
        }
        Window::Scope { name, nth } => scope(snapshot, name, *nth),
    }
}

fn scope(snapshot: &Snapshot, name: &str, nth: Option<usize>) -> Result<Vec<Range<usize>>> {
    let spans: Vec<Range<i64>> = scopes(&snapshot.external_annotations)
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
        return ranges(snapshot, &Window::Time(span));
    }
    for (device, trace) in snapshot.device_traces.iter().enumerate() {
        let in_scope: Vec<bool> =
            snapshot.shapes.iter().map(|(_, shape)| shape.text("user_metadata") == Some(name)).collect();
        let runs = runs(trace.iter().map(|entry| in_scope[entry.shape.index()]));
        let Some(last) = runs.last() else { continue };
        let range = match nth {
            Some(nth) => runs.get(nth).cloned().ok_or_else(|| {
                Error::misuse(format!("there is no scope {name:?} number {nth}: there are {}", runs.len()))
            })?,
            None => runs[0].start..last.end,
        };
        let device = u16::try_from(device).ok().map(DeviceId);
        return ranges(snapshot, &Window::Events { device, range });
    }
    Err(Error::misuse(format!("no event is in a scope {name:?}")))
}

/// Where a condition holds without a break.
fn runs(all: impl Iterator<Item = bool>) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (index, _) in all.enumerate().filter(|(_, is_in)| *is_in) {
        match runs.last_mut() {
            Some(last) if last.end == index => last.end += 1,
            _ => runs.push(index..index + 1),
        }
    }
    runs
}

/// Every scope that began, in that order, with its times; one without an end lasts.
fn scopes(annotations: &[Annotation]) -> Vec<(&Annotation, Range<i64>)> {
    let mut open: FxHashMap<(Text, i64), Vec<usize>> = FxHashMap::default();
    let mut scopes: Vec<(&Annotation, Range<i64>)> = Vec::new();
    for annotation in annotations {
        let of_name = open.entry((annotation.name.clone(), annotation.device)).or_default();
        if &*annotation.stage == "START" {
            of_name.push(scopes.len());
            scopes.push((annotation, annotation.time_us..i64::MAX));
        } else if let Some(begun) = of_name.pop() {
            scopes[begun].1.end = annotation.time_us;
        }
    }
    scopes
}

/// Keeps the scopes that touch a time, with both their ends.
fn keep_annotations(annotations: &mut Vec<Annotation>, times: &Range<i64>) {
    let mut open: FxHashMap<(Text, i64), Vec<usize>> = FxHashMap::default();
    let mut is_kept = vec![false; annotations.len()];
    for (index, annotation) in annotations.iter().enumerate() {
        let of_name = open.entry((annotation.name.clone(), annotation.device)).or_default();
        if &*annotation.stage == "START" {
            of_name.push(index);
            continue;
        }
        let start = of_name.pop();
        let begins = start.map_or(i64::MIN, |start| annotations[start].time_us);
        let touches = begins < times.end && annotation.time_us >= times.start;
        [start, Some(index)].into_iter().flatten().for_each(|index| is_kept[index] = touches);
    }
    for index in open.into_values().flatten() {
        is_kept[index] = annotations[index].time_us < times.end;
    }
    let mut is_kept = is_kept.into_iter();
    annotations.retain(|_| is_kept.next().unwrap_or(true));
}
