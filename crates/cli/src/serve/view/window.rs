//! A window of the timeline: a stretch of its axis, cut into columns.

#![forbid(unsafe_code)]

use memreel_snapshot::analysis::Axis;

use super::{device::Device, refusal::Refusal, request::Request};

/// The most columns of a window. A view of half its width has at least half of them.
const MAX_COLUMNS: usize = 2048;

/// The most levels: at level 31 a window of 2^32 moments has two.
const MAX_LEVEL: u32 = 40;

/// A stretch of an axis, in moments or in microseconds since the first event.
///
/// At level L a window is 1/2^L of the whole axis, and window I begins at I halves of its width, so that any stretch of at
/// most half its width is within one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) axis: Axis,
    pub(super) from: f64,
    pub(super) to: f64,
}

/// The moments of a column: those from the first to before the second.
pub(super) type Column = (usize, usize);

impl Window {
    pub(super) fn of(request: &Request, device: &Device<'_>) -> Result<Window, Refusal> {
        let axis = match request.text("axis").unwrap_or("events") {
            "events" => Axis::Events,
            "time" => Axis::Time,
            other => return Err(Refusal::usage(format!("{other:?} is not an axis; use events or time"))),
        };
        let level: u32 = request.number("level")?.unwrap_or(0).min(MAX_LEVEL);
        let index: u64 = request.number("index")?.unwrap_or(0).min((1 << (level + 1)) - 2);
        #[allow(clippy::cast_precision_loss)]
        let span = match axis {
            Axis::Time => device.span_us() as f64,
            _ => device.figures.n_moments() as f64,
        };
        let width = span / f64::from(level).exp2();
        #[allow(clippy::cast_precision_loss)]
        let from = index as f64 * width / 2.0;
        Ok(Window { axis, from, to: from + width })
    }

    /// Returns the moments of each column, the first column first; at least one column, and one moment in each.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(super) fn columns(&self, device: &Device<'_>) -> Vec<Column> {
        let n_moments = device.figures.n_moments();
        let width = self.to - self.from;
        let n_columns = match self.axis {
            Axis::Time => MAX_COLUMNS,
            _ => (width.ceil().max(1.0) as usize).min(MAX_COLUMNS),
        };
        let edge = |column: usize| self.from + width * column as f64 / n_columns as f64;
        let first_in = |edge: f64| match self.axis {
            Axis::Time => device.moment_at(edge as i64),
            _ => edge.floor() as usize,
        };
        let of_edges = |column: usize| {
            let from = first_in(edge(column)).min(n_moments - 1);
            let until = match self.axis {
                // The state at the end of a column's time holds in it too.
                Axis::Time => first_in(edge(column + 1)) + 1,
                _ => first_in(edge(column + 1)),
            };
            (from, until.clamp(from + 1, n_moments))
        };
        (0..n_columns).map(of_edges).collect()
    }
}
