//! What each site allocated: in the events of a history, or in the sums of a recorder over a whole run.

use super::{
    same_calls::SameCalls,
    site::Site,
    top::{Group, sorted},
};
use crate::{
    analysis::{DeviceHistory, state::highest_levels},
    history::Moment,
    model::{Allocated, AllocatedOfRun, StackTable},
    words::SeededMap,
};

impl DeviceHistory<'_> {
    /// Returns the groups of all blocks that are allocated in the history, by stack, the largest first.
    #[must_use]
    pub fn allocated(&self) -> Vec<Group> {
        self.by_calls(self.new_lives(Moment::START))
    }

    /// Returns the same groups, each with the most bytes that were live at once in the history.
    #[must_use]
    pub fn allocated_with_peaks(&self) -> Vec<Group> {
        let mut groups = self.allocated();
        let mut same = SameCalls::new(self);
        let places: SeededMap<Site, usize> =
            groups.iter().enumerate().map(|(place, group)| (same.site(&group.site), place)).collect();
        let mut changes = Vec::new();
        for life in self.new_lives(Moment::START) {
            if let Some(place) = places.get(&same.site(&Site::from_life(life))) {
                let bytes = i128::from(life.represented_bytes);
                changes.extend([(life.from, bytes, *place), (life.until, -bytes, *place)]);
            }
        }
        for (place, (bytes, _)) in highest_levels(changes) {
            groups[place].peak_bytes = Some(bytes);
            groups[place].peak_is_at_most = Some(false);
        }
        groups
    }

    /// Returns the groups of what was allocated over a whole recording, by stack, the largest first. The stacks are those of this
    /// history's snapshot ([`Snapshot::allocated`](crate::model::Snapshot::allocated)). The peak of several stacks that are one
    /// site is at most the sum of theirs.
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
    pub fn groups_of(&self, run: &AllocatedOfRun) -> Vec<Group> {
        let group = |sum: &Allocated| Group {
            peak_bytes: sum.peak_bytes,
            least_peak_bytes: sum.least_peak_bytes,
            at_peak_bytes: sum.bytes_at_peak,
            ..group_of(sum, sum.n_blocks, sum.bytes)
        };
        let of_stacks = sorted(run.sums.iter().filter(|sum| sum.n_blocks > 0).map(group).collect());
        let mut groups = SameCalls::new(self).add_up(of_stacks, |group| &group.site, Group::join);
        let most = run.peak().map_or(u64::MAX, |(bytes, _)| bytes);
        for group in &mut groups {
            group.peak_bytes = group.peak_bytes.map(|bytes| bytes.min(most));
            group.peak_is_at_most = group.peak_bytes.map(|bytes| bytes > group.least_peak_bytes);
        }
        sorted(groups)
    }
}

/// Returns blocks of a stack as a group.
pub(crate) fn group_of(sum: &Allocated, n_blocks: u64, bytes: u64) -> Group {
    let has_stack = sum.stack != StackTable::EMPTY;
    let site = if has_stack { Site::Stack(sum.stack) } else { Site::NoStack };
    let mut group = Group::new(site);
    group.add(bytes, usize::try_from(n_blocks).unwrap_or(usize::MAX));
    Group { total_bytes: bytes, n_stacks: usize::from(has_stack), ..group }
}
