//! The differences between two snapshots, by site: added, gone, grown and shrunk.
//!
//! A site is the same in both if its identifying frames have the same names, files and lines; in files that
//! torch.compile generated, whose names are hashes, only the functions count. The same functions at other lines, or in
//! files of another folder, are also one site if the code was moved (`moved`), and so are the same calls of a library
//! from two scripts (`other_script`). Each site is one change, so the changes add up to the difference between the
//! bytes in use.
//!
//! Both states come from the segments as well as from the trace. So a block that is in use from before
//! both histories to their ends is in both states and is not a difference, and a block that was freed in
//! between is gone.

use std::cmp::Reverse;

use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::{moved, other_script};
use crate::{
    analysis::{
        AtSite, By, DeviceHistory, Group, Site,
        sites::{SiteKey, SiteKeys},
    },
    history::Moment,
    words::SeededMap,
};

/// The blocks of one site in two snapshots.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct GroupChange {
    /// Its blocks in the first snapshot, with the stack's index there; `None` if there are none.
    pub before: Option<Group>,
    /// Its blocks in the second snapshot, with the stack's index there; `None` if there are none.
    pub after: Option<Group>,
}

/// The site from the later snapshot if it has the site, otherwise from the earlier one.
impl AtSite for GroupChange {
    fn site(&self) -> Option<&Site> {
        Some(&self.after.as_ref().or(self.before.as_ref())?.site)
    }
}

impl GroupChange {
    /// Returns the site in both snapshots, to order changes.
    fn sites(&self) -> [Option<&Site>; 2] {
        [&self.after, &self.before].map(|group| group.as_ref().map(|group| &group.site))
    }

    /// Returns the blocks that only one snapshot has, and which of the two that is.
    fn alone(&self) -> Option<(usize, &Group)> {
        match (&self.before, &self.after) {
            (Some(group), None) => Some((0, group)),
            (None, Some(group)) => Some((1, group)),
            _ => None,
        }
    }

    /// Returns by how many bytes the site grew; negative if it shrank.
    #[must_use]
    pub fn bytes(&self) -> i128 {
        let bytes = |group: &Option<Group>| group.as_ref().map_or(0, |group| i128::from(group.bytes));
        bytes(&self.after) - bytes(&self.before)
    }

    /// Returns by how many blocks the site grew; negative if it shrank.
    #[must_use]
    pub fn n_blocks(&self) -> i64 {
        let n = |group: &Option<Group>| {
            group.as_ref().map_or(0, |group| i64::try_from(group.n_blocks).unwrap_or(i64::MAX))
        };
        n(&self.after) - n(&self.before)
    }
}

/// Returns the groups that only one snapshot has, with their places.
fn alone(changes: &[GroupChange]) -> impl Iterator<Item = (usize, (usize, &Group))> {
    changes.iter().enumerate().filter_map(|(at, change)| Some((at, change.alone()?)))
}

impl Serialize for GroupChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = |group: &Option<Group>| group.as_ref().map_or(0, |group| group.bytes);
        let mut change = serializer.serialize_struct("GroupChange", 4)?;
        change.serialize_field("bytes", &i64::try_from(self.bytes()).ok())?;
        change.serialize_field("blocks", &self.n_blocks())?;
        change.serialize_field("before_bytes", &bytes(&self.before))?;
        change.serialize_field("after_bytes", &bytes(&self.after))?;
        change.end()
    }
}

impl DeviceHistory<'_> {
    /// Returns the sites that differ between a moment of this history and a moment of another, usually that of a later
    /// snapshot. Those that grew come first, then those that shrank; within each, the largest change comes first. Their
    /// bytes add up to the difference between the bytes in use.
    #[must_use]
    pub fn diff(&self, moment: Moment, after: &DeviceHistory<'_>, after_moment: Moment) -> Vec<GroupChange> {
        let groups = [(self, moment), (after, after_moment)]
            .map(|(history, moment)| history.by_calls(history.lives_at(moment)));
        self.changes(after, groups)
    }

    /// Returns the owners that hold more or less device memory. Otherwise like [`DeviceHistory::diff`].
    #[must_use]
    pub fn diff_owners(
        &self,
        moment: Moment,
        after: &DeviceHistory<'_>,
        after_moment: Moment,
    ) -> Vec<GroupChange> {
        let groups =
            [(self, moment), (after, after_moment)].map(|(history, moment)| history.top(moment, By::Owner));
        self.changes(after, groups)
    }

    fn changes(&self, after: &DeviceHistory<'_>, [of_before, of_after]: [Vec<Group>; 2]) -> Vec<GroupChange> {
        let mut changes: SeededMap<SiteKey, GroupChange> = SeededMap::default();
        let mut keys = SiteKeys::default();
        for (is_after, history, groups) in [(false, self, of_before), (true, after, of_after)] {
            let shown = history.shown_frames();
            for group in groups {
                let change = changes
                    .entry(keys.of(&group.site, &shown))
                    .or_insert(GroupChange { before: None, after: None });
                *(if is_after { &mut change.after } else { &mut change.before }) = Some(group);
            }
        }
        let mut changes: Vec<GroupChange> = changes.into_values().collect();
        let shown = [self.shown_frames(), after.shown_frames()];
        let join = |changes: &mut Vec<GroupChange>, pairs: Vec<[usize; 2]>| {
            for [gone, added] in pairs {
                changes[added].before = changes[gone].before.take();
            }
        };
        let pairs = moved::pairs(alone(&changes), &shown, [self.shared(), after.shared()]);
        join(&mut changes, pairs);
        let pairs = other_script::pairs(alone(&changes), &shown);
        join(&mut changes, pairs);
        changes.retain(|change| change.bytes() != 0 || change.n_blocks() != 0);
        changes.sort_by(|one, other| {
            let key = |change: &GroupChange| {
                let (bytes, n_blocks) = (change.bytes(), change.n_blocks());
                (bytes < 0, Reverse(bytes.abs()), Reverse(n_blocks.abs()), n_blocks < 0)
            };
            key(one).cmp(&key(other)).then_with(|| one.sites().cmp(&other.sites()))
        });
        changes
    }
}
