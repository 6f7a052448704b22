//! A recorded run and its size.

use super::{alignment::Asked, size::Size};
use crate::whatif::{Change, Requests};
use memreel_snapshot::{
    analysis::{Made, ShownFrames, StackNumbers},
    model::{Snapshot, StackIndex},
    words::{DeviceId, Result},
};

/// The requests of one run to one device, and the size of the run.
#[derive(Debug)]
pub struct SizedRun {
    pub(super) size: Size,
    pub(super) requests: Requests,
    pub(super) asked: Vec<Asked>,
}

impl SizedRun {
    /// Reads a run from its snapshot, with some changes applied. `stacks` numbers the stacks of all runs that are
    /// compared.
    ///
    /// # Errors
    /// The errors of [`Requests::new`] and [`Requests::changed`].
    pub fn new<'a>(
        size: Size,
        snapshot: &'a Snapshot,
        device: DeviceId,
        changes: &[Change],
        stacks: &mut StackNumbers<'a>,
    ) -> Result<SizedRun> {
        let recorded = Requests::new(snapshot, device)?;
        let requests =
            changes.iter().try_fold(recorded, |requests, change| requests.changed(snapshot, change))?;
        let numbers = stacks.of(snapshot);
        let trace = snapshot.trace(device);
        let shown = ShownFrames::new(snapshot);
        let mut made: Vec<Option<Option<Made>>> = vec![None; snapshot.stacks.len()];
        let mut made_by =
            |stack: StackIndex| *made[stack.index()].get_or_insert_with(|| Made::of(&shown, stack));
        let asked = requests.sizes().map(|(entry, bytes)| match trace[entry].stack {
            Some(stack) => Asked { stack: numbers[stack.index()], bytes, made: made_by(stack) },
            None => Asked { stack: u32::MAX, bytes, made: None },
        });
        Ok(SizedRun { size, asked: asked.collect(), requests })
    }

    /// Returns the size.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size
    }

    /// Returns the requests.
    #[must_use]
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Returns whether a request failed, so that the run ended before its peak.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.requests.recorded().num_ooms > 0
    }
}
