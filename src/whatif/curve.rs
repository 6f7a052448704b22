//! The reserved memory of a replay over the moments of the recorded history.

use super::{
    replay::{Replay, can_repeat},
    run::{Order, Run},
};
use crate::recorder::Recorder;
use memreel_snapshot::{history::Moment, words::Result};

/// The memory that a replay reserves from a moment of the recorded history on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ReservedFrom {
    /// The moment after the recorded entry whose request changed it.
    pub moment: Moment,
    /// The reserved bytes.
    pub reserved_bytes: u64,
}

impl Replay<'_> {
    /// Runs the requests and returns the reserved memory at the start and after each request that changed it.
    ///
    /// The addresses are those of [`ReplayAnswer::outcome`](super::ReplayAnswer::outcome). Unlike [`replayed`](super::replayed), no event
    /// is kept, so this takes little memory however long the history is.
    ///
    /// # Errors
    /// [`is_invalid_option`](crate::Error::is_invalid_option) for settings that cannot be read.
    ///
    /// ```
    /// # use memreel::{Reel, DeviceId, recorder::Recording, whatif::{Replay, Requests}};
    /// # let reel = Reel::builder().history(Recording::all()).build()?;
    /// # drop(reel.alloc(3 << 20)?);
    /// let requests = Requests::new(&reel.snapshot(), DeviceId(0))?;
    /// let curve = Replay::new(&requests).conf("large_segment_size_mb:40").reserved()?;
    /// assert_eq!(curve.iter().map(|point| point.reserved_bytes).max(), Some(40 << 20));
    /// # Ok::<(), memreel::Error>(())
    /// ```
    pub fn reserved(&self) -> Result<Vec<ReservedFrom>> {
        let repeats = can_repeat(self.requests, &self.question);
        self.reserved_in(if repeats { Order::Recorded } else { Order::Falling })
    }

    fn reserved_in(&self, order: Order) -> Result<Vec<ReservedFrom>> {
        let conditions = self.question.conditions(order)?;
        let mut run = Run::start(self.requests, &conditions, &Recorder::new())?;
        let mut curve =
            vec![ReservedFrom { moment: Moment::START, reserved_bytes: run.held_bytes().reserved_bytes }];
        for step in &self.requests.steps {
            run.step(step)?;
            let reserved_bytes = run.held_bytes().reserved_bytes;
            if curve.last().is_none_or(|last| last.reserved_bytes != reserved_bytes) {
                curve.push(ReservedFrom { moment: Moment::after(step.entry()), reserved_bytes });
            }
        }
        Ok(curve)
    }
}
