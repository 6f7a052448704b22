//! Memory over a history.

use memreel_snapshot::{
    analysis::{Axis, Point},
    history::Moment,
};
use serde::Serialize;

use crate::{Question, Refusal, Subject};

/// How much memory is allocated, in use and reserved over a history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimelineQuestion {
    /// What the points are evenly spread over.
    pub axis: Axis,
    /// The most points, from 1 to 100,000.
    pub n_points: usize,
}

impl Default for TimelineQuestion {
    fn default() -> TimelineQuestion {
        TimelineQuestion { axis: Axis::Events, n_points: 100 }
    }
}

/// The answer to [`TimelineQuestion`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Timeline {
    /// The points, the oldest first.
    pub points: Vec<TimelinePoint>,
    /// What limits the figures, one sentence each; empty if nothing does.
    pub warnings: Vec<String>,
}

/// The highest figures of a stretch of a history.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct TimelinePoint {
    /// The last event of the stretch, or of a stretch without events the next one; null before the first one.
    pub event: Moment,
    /// When that was, in microseconds since the Unix epoch; 0 if that is unknown.
    pub time_us: i64,
    /// The requested bytes of the blocks that the program holds.
    pub allocated_bytes: u64,
    /// The requested bytes of these and of pending blocks.
    pub active_bytes: u64,
    /// The bytes that are held from the device.
    pub reserved_bytes: u64,
}

impl From<Point> for TimelinePoint {
    fn from(Point { time_us, highest, .. }: Point) -> TimelinePoint {
        TimelinePoint {
            event: highest.moment,
            time_us,
            allocated_bytes: highest.allocated_bytes,
            active_bytes: highest.active_bytes,
            reserved_bytes: highest.reserved_bytes,
        }
    }
}

impl Question for TimelineQuestion {
    type Answer<'s> = Timeline;

    fn ask(&self, subject: &Subject<'_>) -> Result<Timeline, Refusal> {
        let points = subject.history().timeline(self.axis, self.n_points.clamp(1, 100_000));
        Ok(Timeline {
            points: points.into_iter().map(TimelinePoint::from).collect(),
            warnings: subject.warnings(),
        })
    }
}
