//! Allocated, active and reserved bytes over a history, at a given number of points.

use super::{device_history::DeviceHistory, totals::Totals};
use crate::history::{Moment, Times};

/// The horizontal axis of a picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Axis {
    /// Entry after entry.
    #[default]
    Events,
    /// Microseconds.
    Time,
}

/// The highest figures of a stretch of a history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Point {
    /// The time of the stretch's last entry in microseconds; of the trace's first entry if there is none.
    pub time_us: i64,
    /// The highest of each figure in the stretch, and the last moment of the stretch.
    pub highest: Totals,
}

impl DeviceHistory<'_> {
    /// Cuts the history into at most `n_points` stretches of equal length and returns the highest figures of
    /// each. A stretch without entries repeats the figures before it.
    #[must_use]
    pub fn timeline(&self, axis: Axis, n_points: usize) -> Vec<Point> {
        let entries = self.entries();
        let times = Times::new(entries);
        let time = |moment: Moment| times.get(moment.entry().unwrap_or(0)).unwrap_or(0);
        let n_moments = entries.len() + 1;
        let n_points = n_points.max(1).min(if axis == Axis::Events { n_moments } else { usize::MAX });
        let (first, last) = (time(Moment::START), time(self.end()));
        let span = (i128::from(last) - i128::from(first) + 1).max(1);
        // The stretch that a moment is in, and whether the state before it holds in that stretch too. An entry that is
        // older than the previous one remains in its stretch.
        let place = |moment: Moment| match axis {
            Axis::Events => (moment.n_entries() * n_points / n_moments, false),
            Axis::Time => {
                let since = (i128::from(time(moment)) - i128::from(first)).clamp(0, span - 1);
                let place = since * n_points as i128;
                (usize::try_from(place / span).unwrap_or(0), place % span > 0)
            }
        };
        let mut points: Vec<Point> = Vec::with_capacity(n_points);
        let mut latest = Totals::default();
        for totals in self.totals() {
            let moment = totals.moment;
            let (place, is_within) = place(moment);
            let place = place.max(points.len().saturating_sub(1));
            while points.len() <= place {
                let holds_before = !points.is_empty() && (is_within || points.len() < place);
                let highest = if holds_before { latest } else { totals };
                points.push(Point { time_us: time(moment), highest: Totals { moment, ..highest } });
            }
            if let Some(point) = points.last_mut() {
                point.time_us = time(moment);
                raise(&mut point.highest, &totals);
            }
            latest = totals;
        }
        points
    }
}

fn raise(highest: &mut Totals, totals: &Totals) {
    highest.moment = totals.moment;
    highest.allocated_bytes = highest.allocated_bytes.max(totals.allocated_bytes);
    highest.active_bytes = highest.active_bytes.max(totals.active_bytes);
    highest.rounded_bytes = highest.rounded_bytes.max(totals.rounded_bytes);
    highest.reserved_bytes = highest.reserved_bytes.max(totals.reserved_bytes);
    highest.n_blocks = highest.n_blocks.max(totals.n_blocks);
}
