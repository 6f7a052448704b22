//! The histories of all devices of one snapshot.

use std::sync::Arc;

use super::{device_history::DeviceHistory, shared::SharedRecords};
use crate::{model::Snapshot, words::DeviceId};

/// The histories of a snapshot's devices. What they share is computed once, when it is first needed.
///
/// ```
/// # use memreel::{Reel, recorder::Recording};
/// use memreel::analysis::{Histories, devices};
///
/// # let reel = Reel::builder().history(Recording::all()).build()?;
/// # let _block = reel.alloc(1000)?;
/// let snapshot = reel.snapshot();
/// let histories = Histories::new(&snapshot);
/// let peaks = devices(&snapshot).into_iter().map(|device| histories.of(device).peak().active_bytes);
/// assert_eq!(peaks.sum::<u64>(), 1000);
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Histories<'a>(Arc<SharedRecords<'a>>);

impl<'a> Histories<'a> {
    /// Takes a snapshot; reads nothing yet.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot) -> Histories<'a> {
        Histories(Arc::new(SharedRecords::new(snapshot)))
    }

    /// Reads the trace and the segments of a device. Like [`DeviceHistory::new`].
    #[must_use]
    pub fn of(&self, device: impl Into<DeviceId>) -> DeviceHistory<'a> {
        DeviceHistory::sharing(self.0.clone(), device.into())
    }
}
