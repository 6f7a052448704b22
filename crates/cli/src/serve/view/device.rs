//! A device of a recording, with what the page needs about it repeatedly.

#![forbid(unsafe_code)]

use std::{
    ops::Range,
    sync::{Mutex, OnceLock, PoisonError},
};

use memreel_snapshot::{
    Action, Address, DeviceId,
    analysis::{DeviceHistory, Totals},
    history::{Life, Moment},
    model::TraceEntry,
};

use super::{
    figures::Figures,
    groups::{Colour, Groups, Palette},
    in_use::InUse,
    sizes::Sizes,
};

/// One device's history, ready for questions.
pub(super) struct Device<'a> {
    pub(super) id: DeviceId,
    pub(super) history: DeviceHistory<'a>,
    pub(super) figures: Figures,
    pub(super) sizes: Sizes,
    pub(super) peak: Totals,
    /// The most that is active or reserved at any moment.
    pub(super) top_bytes: u64,
    palette: Palette,
    /// The times of the events, each at least that of the event before, if those of the file are not.
    rising_us: Option<Vec<i64>>,
    by_address: OnceLock<Vec<u32>>,
    in_use: OnceLock<InUse>,
    named: OnceLock<Vec<(u32, Vec<&'a str>)>>,
    mapped: OnceLock<Vec<Range<Address>>>,
    order: Mutex<Option<Order>>,
}

/// The numbers of lives in the order of a list.
pub(super) struct Order {
    /// What was asked for.
    pub(super) key: String,
    pub(super) numbers: Vec<u32>,
}

impl<'a> Device<'a> {
    pub(super) fn new(history: DeviceHistory<'a>, id: DeviceId) -> Device<'a> {
        let figures = Figures::new(&history);
        let all = figures.between(&history, 0, figures.n_moments());
        Device {
            id,
            sizes: Sizes::new(&history),
            peak: history.peak(),
            top_bytes: all.active[1].max(all.reserved[1]).max(1),
            palette: Palette::default(),
            rising_us: rising_us(history.entries()),
            by_address: OnceLock::new(),
            in_use: OnceLock::new(),
            named: OnceLock::new(),
            mapped: OnceLock::new(),
            order: Mutex::new(None),
            figures,
            history,
        }
    }

    /// Returns the time of a moment in microseconds: that of the event that has just happened.
    pub(super) fn time_us(&self, moment: Moment) -> Option<i64> {
        let entry = moment.entry().unwrap_or(0);
        self.history.entries().get(entry).map(|entry| entry.time_us)
    }

    /// Returns the time of the last event, or the latest one.
    pub(super) fn last_us(&self) -> Option<i64> {
        let last = self.history.entries().last().map(|entry| entry.time_us);
        self.rising_us.as_ref().map_or(last, |times| times.last().copied())
    }

    pub(super) fn first_us(&self) -> Option<i64> {
        self.time_us(Moment::START)
    }

    /// The microseconds from the first event to the last, at least one.
    pub(super) fn span_us(&self) -> i64 {
        let ends = self.last_us().zip(self.first_us());
        ends.map_or(0, |(last, first)| last.saturating_sub(first)).max(1)
    }

    /// Returns the number of events that happened before a time, in microseconds since the first event.
    pub(super) fn moment_at(&self, since_us: i64) -> usize {
        let time_us = self.first_us().unwrap_or(0).saturating_add(since_us);
        match &self.rising_us {
            Some(times) => times.partition_point(|time| *time <= time_us),
            None => self.history.entries().partition_point(|entry| entry.time_us <= time_us),
        }
    }

    /// Returns the numbers of the lives by address, those of one address in the order of their uses.
    pub(super) fn by_address(&self) -> &[u32] {
        self.by_address.get_or_init(|| {
            let lives = self.history.lives();
            // Of two uses of an address, the earlier one has the lower number.
            let mut placed: Vec<(Address, u32)> = lives.iter().map(|life| life.address).zip(0..).collect();
            placed.sort_unstable();
            placed.into_iter().map(|(_, number)| number).collect()
        })
    }

    /// Returns the numbers of the lives that are in use in a window, rising; `None` if these are many of all.
    pub(super) fn within(&self, moments: [Moment; 2]) -> Option<Vec<u32>> {
        let lives = self.history.lives();
        self.in_use.get_or_init(|| InUse::new(lives)).within(lives, moments)
    }

    /// Returns the groups of a colour, numbered by what they hold at the peak.
    pub(super) fn groups(&self, colour: Colour) -> &Groups {
        self.palette.groups(&self.history, self.peak.moment, colour)
    }

    /// Returns the range of an expandable segment: the pages around an address that were ever mapped. An allocator maps a
    /// reservation from its beginning on, so that pages between two that are mapped have been mapped too.
    pub(super) fn expandable_range(&self, address: Address) -> Option<&Range<Address>> {
        let mapped = self.mapped.get_or_init(|| ever_mapped(&self.history));
        let after = mapped.partition_point(|range| range.start <= address);
        mapped[..after].last().filter(|range| address < range.end)
    }

    /// Returns the lives that were given names, by their numbers.
    pub(super) fn named(&self) -> &[(u32, Vec<&'a str>)] {
        self.named.get_or_init(|| {
            let names = |life: &Life| self.history.names_of(life);
            let all = (0..).zip(self.history.lives()).map(|(number, life)| (number, names(life)));
            all.filter(|(_, names)| !names.is_empty()).collect()
        })
    }

    pub(super) fn life(&self, number: u32) -> Option<&Life> {
        self.history.lives().get(number as usize)
    }

    /// Runs a function on the list in the order that was asked for last.
    pub(super) fn with_order<T>(&self, ask: impl FnOnce(&mut Option<Order>) -> T) -> T {
        ask(&mut self.order.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns the ranges of pages that were mapped at some moment, joined where they touch.
fn ever_mapped(history: &DeviceHistory<'_>) -> Vec<Range<Address>> {
    let entries = history.entries().iter().filter(|entry| entry.action == Some(Action::SegmentMap));
    let mapped = entries.map(|entry| entry.address..entry.address.saturating_add(entry.size));
    let ends = [Moment::START, history.end()].map(|moment| history.layout(moment));
    let of_ends = ends.iter().flatten().filter(|segment| segment.range.is_expandable);
    let of_ends = of_ends
        .map(|segment| segment.range.address..segment.range.address.saturating_add(segment.range.bytes));
    let mut all: Vec<Range<Address>> = mapped.chain(of_ends).collect();
    all.sort_unstable_by_key(|range| (range.start, range.end));
    let mut joined: Vec<Range<Address>> = Vec::new();
    for range in all {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Returns the times of events, each at least that of the event before; `None` if those of the file are.
fn rising_us(entries: &[TraceEntry]) -> Option<Vec<i64>> {
    if entries.is_sorted_by_key(|entry| entry.time_us) {
        return None;
    }
    let mut highest = i64::MIN;
    let rising = entries.iter().map(|entry| {
        highest = highest.max(entry.time_us);
        highest
    });
    Some(rising.collect())
}
