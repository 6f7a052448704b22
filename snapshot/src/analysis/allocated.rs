//! What each site allocated: in the events of a history, or by the sums of a recorder over a whole run.

use super::{
    same_calls::SameCalls,
    site::Site,
    state::DeviceHistory,
    top::{Group, sorted},
};
use crate::{
    history::Moment,
    model::{Allocated, StackTable},
};

impl DeviceHistory<'_> {
    /// Returns the groups of all blocks that are allocated in the history, by stack, the largest first.
    #[must_use]
    pub fn allocated(&self) -> Vec<Group> {
        self.by_calls(self.new_lives(Moment::START))
    }

    /// Returns the groups of what was allocated over a whole recording, by stack, the largest first. The stacks are those of this
    /// history's snapshot ([`Snapshot::allocated`](crate::model::Snapshot::allocated)).
    ///
    /// ```
    /// use memreel::{Recovered, Reel, recorder::Recording};
    /// use memreel::{DeviceId, analysis::DeviceHistory};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// let path = folder.path().join("run.tape");
    /// let reel = Reel::builder().history(Recording::all().tape(&path)).build()?;
    /// drop(reel.alloc(1000)?);
    /// let snapshot = Recovered::read(&path)?.snapshot();
    /// // Only of memory without segments, such as a process's heap.
    /// assert!(snapshot.allocated(DeviceId(0)).is_none());
    /// assert_eq!(DeviceHistory::new(&snapshot, DeviceId(0)).allocated()[0].bytes, 1000);
    /// # Ok::<(), memreel::Error>(())
    /// ```
    #[must_use]
    pub fn groups_of(&self, sums: &[Allocated]) -> Vec<Group> {
        let group = |sum: &Allocated| {
            let has_stack = sum.stack != StackTable::EMPTY;
            let site = if has_stack { Site::Stack(sum.stack) } else { Site::NoStack };
            let mut group = Group::new(site);
            group.add(sum.bytes, usize::try_from(sum.n_blocks).unwrap_or(usize::MAX));
            let (n_stacks, peak_bytes) = (usize::from(has_stack), sum.peak_bytes);
            Group { total_bytes: sum.bytes, n_stacks, peak_bytes, ..group }
        };
        let of_stacks = sorted(sums.iter().map(group).collect());
        sorted(SameCalls::new(self).add_up(of_stacks, |group| &group.site, Group::join))
    }
}
