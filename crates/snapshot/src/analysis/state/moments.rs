//! The figures of every moment of a history, and those of the highest.

use super::{device_history::DeviceHistory, totals::Totals};
use crate::{
    history::{Life, Moment},
    model::TraceEntry,
    words::Action,
};

impl DeviceHistory<'_> {
    /// Returns the figures of every moment, from before the first entry to after the last.
    pub fn totals(&self) -> impl Iterator<Item = Totals> {
        std::iter::once(self.start).chain(self.totals_after(self.start))
    }

    /// Returns the figures of every moment after the one that `totals` are of.
    pub fn totals_after(&self, totals: Totals) -> impl Iterator<Item = Totals> {
        let mut totals = totals;
        (totals.moment.n_entries()..self.entries.len()).map(move |entry| {
            self.apply(entry, &mut totals);
            totals
        })
    }

    /// Returns the figures of one moment, or of the last one if the history is shorter.
    #[must_use]
    pub fn totals_at(&self, moment: Moment) -> Totals {
        let mut totals = self.start;
        (0..moment.n_entries().min(self.entries.len())).for_each(|entry| self.apply(entry, &mut totals));
        totals
    }

    /// Returns the figures of the first moment with the most bytes in use, of those that the events have
    /// ([`DeviceHistory::earlier_peak`]).
    #[must_use]
    pub fn peak(&self) -> Totals {
        self.highest(|totals| totals.active_bytes)
    }

    /// Returns the figures of the first moment at which `figure` is highest.
    ///
    /// Moments between the allocation of a segment and that of the block for which it was allocated
    /// do not count, because the whole segment would seem unused.
    pub fn highest(&self, figure: impl Fn(&Totals) -> u64) -> Totals {
        self.highest_until(self.end(), figure)
    }

    /// Like [`DeviceHistory::highest`], among the moments until one.
    pub(crate) fn highest_until(&self, last: Moment, figure: impl Fn(&Totals) -> u64) -> Totals {
        let mut best = self.start;
        for totals in self.totals().take_while(|totals| totals.moment <= last) {
            if figure(&totals) > figure(&best) && !self.is_within_a_request(totals.moment) {
                best = totals;
            }
        }
        best
    }

    /// Returns the figures of the first moment with the most bytes in use in the scopes with a name, and in those inside
    /// them; `None` without such a scope. The moment at which a scope begins is in it.
    #[must_use]
    pub fn peak_in(&self, scope: &str) -> Option<Totals> {
        let is_in = self.scopes().entries_in(scope);
        let (mut before, mut best) = (self.start, None::<Totals>);
        for (totals, is_in) in self.totals_after(self.start).zip(is_in) {
            for totals in [before, totals].into_iter().filter(|_| is_in) {
                if best.is_none_or(|best| totals.active_bytes > best.active_bytes) {
                    best = Some(totals);
                }
            }
            before = totals;
        }
        best
    }

    /// Returns whether the last entry before the moment only prepares the next entry.
    fn is_within_a_request(&self, moment: Moment) -> bool {
        let is_growth =
            |entry: &TraceEntry| matches!(entry.action, Some(Action::SegmentAlloc | Action::SegmentMap));
        let Some(before) = moment.entry() else { return false };
        let next = self.entries.get(before + 1);
        is_growth(&self.entries[before])
            && next.is_some_and(|next| is_growth(next) || next.action == Some(Action::Alloc))
    }

    #[inline]
    fn second_life_of(&self, entry: usize) -> Option<&Life> {
        let seconds = &self.lives.second_of;
        if seconds.is_empty() {
            return None;
        }
        let life = seconds.get(&u32::try_from(entry).ok()?)?;
        Some(&self.lives.all[*life as usize])
    }

    #[inline]
    fn apply(&self, entry: usize, totals: &mut Totals) {
        totals.moment = Moment::after(entry);
        let TraceEntry { action, size, .. } = self.entries[entry];
        match action {
            Some(Action::SegmentAlloc | Action::SegmentMap) => {
                totals.reserved_bytes = totals.reserved_bytes.saturating_add(size);
            }
            Some(Action::SegmentFree | Action::SegmentUnmap) => {
                totals.reserved_bytes = totals.reserved_bytes.saturating_sub(size);
            }
            Some(Action::Alloc | Action::FreeRequested | Action::FreeCompleted) => {
                if let Some(second) = self.second_life_of(entry) {
                    totals.change(second);
                }
                if let Some(life) = self.life_of(entry) {
                    totals.change(life);
                }
            }
            _ => {}
        }
    }
}
