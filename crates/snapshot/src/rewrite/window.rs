//! Cuts a window out of the history, with the state at its end.

use std::{borrow::Cow, cmp::Reverse, collections::BTreeMap, io, ops::Range};

use super::{past_segments::segments_at, trace::Trace};
use crate::{
    history::{Runs, is_in_scope, places, scope_number, scope_pairs, scopes_named},
    model::{Annotation, RecordedDevices, RecordedSettings, Shape, Snapshot, SnapshotSource, TraceEntry},
    words::{Action, DeviceId, Error, Result},
};

/// A part of the history.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Window {
    /// Events of one device, by their numbers from 0. Other devices keep their events of the same time.
    Events {
        /// The device whose events are counted; `None` is the device with the most.
        device: Option<DeviceId>,
        /// The numbers of the events.
        range: Range<usize>,
    },
    /// Events from one time up to but not including another, in microseconds since the Unix epoch. In a
    /// trace that is not in the order of its times, from the first such event to the last.
    Time(Range<i64>),
    /// A scope from its start to its end.
    Scope {
        /// Its name in `user_metadata` or `external_annotations`. Without `nth`, `step#3` names the scope with
        /// the number 3 among those with the name `step`, unless there is a scope `step#3`.
        name: String,
        /// The number of the scope among those of its name, from 0; `None` is from the first to the last. The
        /// annotated scopes of each device have numbers of their own.
        nth: Option<usize>,
    },
}

/// A window of a source: its events, and the segments as they were at its end.
///
/// Blocks that were in use at its beginning need no event: viewers find them in the segments or by their
/// frees, as after a ring that wrapped.
pub(super) struct Windowed<'a> {
    pub(super) base: Box<dyn SnapshotSource + 'a>,
    pub(super) head: Snapshot,
    /// By device, the numbers of the events that are kept.
    pub(super) ranges: Vec<Range<usize>>,
}

impl<'a> Windowed<'a> {
    pub(super) fn new(base: Box<dyn SnapshotSource + 'a>, window: &Window) -> Result<Windowed<'a>> {
        let ranges = ranges(&*base, window)?;
        let traces = || DeviceId::first(ranges.len()).map(|device| Trace::Source(&*base, device));
        let times = traces().zip(&ranges).filter_map(|(trace, range)| times(trace, range));
        let times = times.reduce(|one, other| one.start.min(other.start)..one.end.max(other.end));
        let mut head = base.head().without_traces();
        let whole = std::mem::take(&mut head.segments);
        let places = places(whole.iter().map(|segment| segment.device));
        let recorded = RecordedDevices::new(&head);
        for ((device, trace), range) in (0..).zip(traces()).zip(&ranges) {
            let of_device = (DeviceId(device), recorded.of(DeviceId(device)).frees_as_allocated);
            let own = places.get(&DeviceId(device)).map_or(&[][..], |places| places);
            let segments = segments_at(&whole, own, of_device, trace, range.end, &mut head.shapes);
            head.segments.extend(segments);
        }
        // Segments of devices without a trace have no history to cut.
        let n_devices = i64::try_from(ranges.len()).unwrap_or(i64::MAX);
        head.segments.extend(whole.into_iter().filter(|segment| !(0..n_devices).contains(&segment.device.0)));
        if let Some(times) = times {
            cut_host(&mut head, &times);
            keep_annotations(&mut head.external_annotations, &times);
        }
        mark(&mut head, &*base, &ranges);
        Ok(Windowed { base, head, ranges })
    }
}

/// Records how many events of each device are outside the window: its peak may not be that of the history.
fn mark(head: &mut Snapshot, base: &dyn SnapshotSource, ranges: &[Range<usize>]) {
    let settings = RecordedDevices::new(head);
    let cut = |(device, range): (DeviceId, &Range<usize>)| {
        let recorded = settings.of(device);
        let n_cut = (base.n_entries(device) - range.len()) as u64;
        (device, RecordedSettings { n_cut: recorded.n_cut.saturating_add(n_cut), ..recorded })
    };
    let recorded: Vec<_> = DeviceId::first(ranges.len()).zip(ranges).map(cut).collect();
    RecordedSettings::store(head, &recorded);
}

fn cut_host(head: &mut Snapshot, times: &Range<i64>) {
    let trace = Trace::Slice(&head.host_traces);
    let range = between(trace, times);
    let devices = head.host_segments.iter().map(|segment| segment.device);
    let own = places(devices).remove(&DeviceId::HOST).unwrap_or_default();
    head.host_segments =
        segments_at(&head.host_segments, &own, (DeviceId::HOST, false), trace, range.end, &mut head.shapes);
    head.host_traces.truncate(range.end);
    head.host_traces.drain(..range.start);
}

impl SnapshotSource for Windowed<'_> {
    fn head(&self) -> &Snapshot {
        &self.head
    }

    fn n_traces(&self) -> usize {
        self.ranges.len()
    }

    fn for_each_entry(&self, device: DeviceId, look: &mut dyn FnMut(&TraceEntry)) {
        if let Some(range) = device.get_in(&self.ranges) {
            self.base.for_each_entry_in(device, range.clone(), look);
        }
    }

    fn n_entries(&self, device: DeviceId) -> usize {
        device.get_in(&self.ranges).map_or(0, Range::len)
    }

    fn for_each_entry_in(&self, device: DeviceId, range: Range<usize>, look: &mut dyn FnMut(&TraceEntry)) {
        let Some(&Range { start, end }) = device.get_in(&self.ranges) else { return };
        let of_base = start.saturating_add(range.start)..start.saturating_add(range.end).min(end);
        self.base.for_each_entry_in(device, of_base, look);
    }

    fn check(&self) -> io::Result<()> {
        self.base.check()
    }
}

/// Returns the times of events, from the first up to and including the last. Events without a time have the time 0 and
/// are skipped, unless there are no others.
fn times(trace: Trace<'_>, range: &Range<usize>) -> Option<Range<i64>> {
    let last = range.end.checked_sub(1).filter(|last| range.contains(last))?;
    let ends = (trace.time_us(range.start)?, trace.time_us(last)?);
    let mut dated: Option<(i64, i64)> = None;
    if ends.0 == 0 || ends.1 == 0 {
        trace.each(range.clone(), |entry| {
            if entry.time_us != 0 {
                dated = Some((dated.map_or(entry.time_us, |(first, _)| first), entry.time_us));
            }
        });
    }
    let (first, last) = dated.unwrap_or(ends);
    Some(first..last.saturating_add(1))
}

/// The numbers of the events of a time, from the first that is not before it to the last that is not after.
/// An event that could not be dated has the time of the one before it, or in front of all others of the first.
fn between(trace: Trace<'_>, times: &Range<i64>) -> Range<usize> {
    let (mut number, mut start, mut end) = (0, None, 0);
    let mut latest_us = None;
    trace.each(0..usize::MAX, |entry| {
        let is_first = latest_us.is_none();
        if entry.time_us != 0 {
            latest_us = Some(entry.time_us);
        }
        if let Some(time_us) = latest_us {
            if start.is_none() && time_us >= times.start {
                start = Some(if is_first { 0 } else { number });
            }
            if time_us < times.end {
                end = number + 1;
            }
        }
        number += 1;
    });
    if latest_us.is_none() && times.contains(&0) {
        return 0..number;
    }
    let start = start.unwrap_or(number);
    start..end.max(start)
}

/// By device, the numbers of the events in a window.
fn ranges(source: &dyn SnapshotSource, window: &Window) -> Result<Vec<Range<usize>>> {
    let devices = DeviceId::first(source.n_traces());
    match window {
        Window::Time(times) => {
            Ok(devices.map(|device| between(Trace::Source(source, device), times)).collect())
        }
        Window::Events { device, range } => {
            let n_traces = source.n_traces();
            let length = |device: &DeviceId| (source.n_entries(*device), Reverse(*device));
            let device = device.or_else(|| devices.max_by_key(length)).unwrap_or_default();
            if device.index().is_none_or(|index| index >= n_traces) {
                let what = format!("there is no device {device}: the file has {n_traces} traces");
                return Err(Error::misuse(what));
            }
            Ok(around(source, device, range, true))
        }
        Window::Scope { name, nth } => scope(source, name, *nth),
    }
}

/// A range of events of one device, with the events of the other devices at the same time. If `is_open`, a range from
/// the first event or to the last is open on that side for the others too, whose clocks may differ.
fn around(
    source: &dyn SnapshotSource,
    device: DeviceId,
    range: &Range<usize>,
    is_open: bool,
) -> Vec<Range<usize>> {
    let trace = Trace::Source(source, device);
    let start = range.start.min(trace.len());
    let range = start..range.end.min(trace.len()).max(start);
    // A window without events has the time of the next event.
    let next = || trace.time_us(range.start).unwrap_or(i64::MAX);
    let times = times(trace, &range).unwrap_or_else(|| next()..next());
    let is_open = is_open && !range.is_empty();
    let start_us = if is_open && range.start == 0 { i64::MIN } else { times.start };
    let times = start_us..if is_open && range.end == trace.len() { i64::MAX } else { times.end };
    let of = |other| match other == device {
        true => range.clone(),
        false => between(Trace::Source(source, other), &times),
    };
    DeviceId::first(source.n_traces()).map(of).collect()
}

fn scope(source: &dyn SnapshotSource, text: &str, nth: Option<usize>) -> Result<Vec<Range<usize>>> {
    let head = source.head();
    let is_inside =
        |shape: &Shape, name: &str| shape.user_metadata().is_some_and(|path| is_in_scope(path, name));
    let shapes = shapes_of_events(source);
    let is_name = |name: &str| {
        scopes_named(&head.external_annotations, name).next().is_some()
            || shapes.iter().any(|shape| is_inside(shape, name))
    };
    let (name, nth) = match nth {
        Some(nth) => (text, Some(nth)),
        None => scope_number(text, is_name),
    };
    let annotated = annotated(&head.external_annotations, name);
    if !annotated.is_empty() {
        return annotated_scope(source, &annotated, name, nth);
    }
    let in_scope: Vec<bool> = head.shapes.iter().map(|(_, shape)| is_inside(shape, name)).collect();
    for device in DeviceId::first(source.n_traces()) {
        let mut runs = Runs::default();
        Trace::Source(source, device).each(0..usize::MAX, |entry| match entry.action {
            Some(Action::Annotate) => runs.pass(),
            _ => runs.take(in_scope[entry.shape.index()]),
        });
        if !runs.found.is_empty() {
            return Ok(around(source, device, &one_scope(&runs.found, name, nth)?, false));
        }
    }
    Err(Error::misuse(format!("no events are in a scope {text:?}; {}", known_scopes(head, &shapes))))
}

/// Returns the shapes of the events whose text is a scope: that of an `annotate` names a block.
fn shapes_of_events(source: &dyn SnapshotSource) -> Vec<&Shape> {
    let shapes = &source.head().shapes;
    let mut is_used = vec![false; shapes.len()];
    for device in DeviceId::first(source.n_traces()) {
        source.for_each_entry(device, &mut |entry| {
            is_used[entry.shape.index()] |= entry.action != Some(Action::Annotate);
        });
    }
    shapes.iter().filter(|(id, _)| is_used[id.index()]).map(|(_, shape)| shape).collect()
}

/// Lists the scopes of a file, for the message about one that it does not have.
fn known_scopes(head: &Snapshot, shapes: &[&Shape]) -> String {
    const N: usize = 8;
    let annotated = head.external_annotations.iter().map(|annotation| &*annotation.name);
    let recorded = shapes.iter().filter_map(|shape| shape.user_metadata());
    let mut names: Vec<&str> = annotated.chain(recorded).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    let listed: Vec<String> = names.iter().take(N).map(|name| format!("{:?}", beginning(name))).collect();
    match names.len() {
        0 => "no scopes were recorded (user_metadata, or record_function with annotations)".to_owned(),
        n if n > N => format!("there are {n}, among them {}", listed.join(", ")),
        _ => format!("there are {}", listed.join(", ")),
    }
}

/// Returns a name for a message, truncated if it is long.
fn beginning(name: &str) -> Cow<'_, str> {
    const MOST: usize = 60;
    match name.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &name[..end]).into(),
        None => name.into(),
    }
}

/// Returns the times of the annotated scopes with a name, by device.
fn annotated(annotations: &[Annotation], name: &str) -> BTreeMap<DeviceId, Vec<Range<i64>>> {
    let mut times = BTreeMap::<DeviceId, Vec<Range<i64>>>::new();
    for pair in scopes_named(annotations, name) {
        // A scope without a START or an END begins before the history or ends after it. An event of the same
        // microsecond is in it.
        let start_us = pair.start.map_or(i64::MIN, |start| annotations[start].time_us);
        let end_us = pair.end.map_or(i64::MAX, |end| annotations[end].time_us.saturating_add(1));
        let Some(place) = pair.start.or(pair.end) else { continue };
        times.entry(annotations[place].device).or_default().push(start_us..end_us);
    }
    times
}

/// Returns the ranges of a scope. Without a number they have the time from its first start to its last end. A
/// number counts the scopes of each device, whose clocks may differ; a device that does not have it keeps its
/// events of the times of the others.
fn annotated_scope(
    source: &dyn SnapshotSource,
    annotated: &BTreeMap<DeviceId, Vec<Range<i64>>>,
    name: &str,
    nth: Option<usize>,
) -> Result<Vec<Range<usize>>> {
    if nth.is_none() {
        let all: Vec<Range<i64>> = annotated.values().flatten().cloned().collect();
        return ranges(source, &Window::Time(one_scope(&all, name, None)?));
    }
    let most = annotated.values().max_by_key(|scopes| scopes.len()).map_or(&[][..], |scopes| scopes);
    one_scope(most, name, nth)?;
    let of_device = |scopes: &Vec<Range<i64>>| one_scope(scopes, name, nth).ok();
    let found: BTreeMap<DeviceId, Range<i64>> =
        annotated.iter().filter_map(|(device, scopes)| Some((*device, of_device(scopes)?))).collect();
    let hull = found.values().cloned().reduce(|all, one| all.start.min(one.start)..all.end.max(one.end));
    let of = |device: DeviceId| {
        let times = found.get(&device).or(hull.as_ref());
        times.map_or(0..0, |times| between(Trace::Source(source, device), times))
    };
    Ok(DeviceId::first(source.n_traces()).map(of).collect())
}

/// Returns the scope of a number, or without one all from the first to the last.
fn one_scope<T: Copy + Ord>(scopes: &[Range<T>], name: &str, nth: Option<usize>) -> Result<Range<T>> {
    let found = match nth {
        Some(nth) => scopes.get(nth).cloned(),
        None => scopes.iter().cloned().reduce(|all, one| all.start.min(one.start)..all.end.max(one.end)),
    };
    let n = scopes.len();
    found.ok_or_else(|| {
        let nth = nth.unwrap_or_default();
        Error::misuse(format!(
            "scope {name:?} number {nth} does not exist: the file has {n}, numbered from 0"
        ))
    })
}

/// Keeps the scopes that overlap a time, with their START and END.
fn keep_annotations(annotations: &mut Vec<Annotation>, times: &Range<i64>) {
    // An annotation of another stage is in no pair; its own time decides.
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
