//! What two snapshots hold, by stack: added, gone, grown and shrunk.
//!
//! Both states come from the segments as much as from the trace, so that a
//! block that lives from before both histories to their ends is in both and
//! no difference, and one that was freed in between is gone.

use rustc_hash::FxHashMap;

use super::{
    state::DeviceHistory,
    top::{Group, Site, grouped},
};
use crate::{
    history::Moment,
    snapshot::{Snapshot, StackIndex, Text},
};

/// A site in both snapshots.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct GroupChange {
    /// Its blocks in the first snapshot, with the stack's number there; `None` if it has none.
    pub before: Option<Group>,
    /// Its blocks in the second.
    pub after: Option<Group>,
}

impl GroupChange {
    /// By how many bytes it grew; negative if it shrank.
    #[must_use]
    pub fn bytes(&self) -> i128 {
        let bytes = |group: &Option<Group>| group.as_ref().map_or(0, |group| i128::from(group.bytes));
        bytes(&self.after) - bytes(&self.before)
    }

    /// By how many blocks it grew; negative if it shrank.
    #[must_use]
    pub fn n_blocks(&self) -> i64 {
        let n = |group: &Option<Group>| {
            group.as_ref().map_or(0, |group| i64::try_from(group.n_blocks).unwrap_or(i64::MAX))
        };
        n(&self.after) - n(&self.before)
    }
}

/// A stack by what its frames say: numbers mean nothing in another snapshot.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Stack(Vec<(Text, Text, u64)>),
    Size(u64),
}

impl DeviceHistory<'_> {
    /// Returns the sites that differ between a moment of this history and one of another, usually of a
    /// later snapshot: those that grew most first, those that shrank most last.
    #[must_use]
    pub fn diff(&self, moment: Moment, after: &DeviceHistory<'_>, after_moment: Moment) -> Vec<GroupChange> {
        diff((self, moment), (after, after_moment))
    }
}

fn diff(before: (&DeviceHistory<'_>, Moment), after: (&DeviceHistory<'_>, Moment)) -> Vec<GroupChange> {
    let mut changes: FxHashMap<Key, GroupChange> = FxHashMap::default();
    for (is_after, (history, moment)) in [(false, before), (true, after)] {
        for group in grouped(history.lives_at(moment), Site::of) {
            let change = changes
                .entry(key(history.snapshot(), &group.site))
                .or_insert(GroupChange { before: None, after: None });
            *(if is_after { &mut change.after } else { &mut change.before }) = Some(group);
        }
    }
    let mut changes: Vec<(Key, GroupChange)> = changes.into_iter().collect();
    changes.retain(|(_, change)| change.bytes() != 0 || change.n_blocks() != 0);
    changes.sort_by(|(_, one), (_, other)| {
        let key = |change: &GroupChange| (change.bytes(), change.n_blocks());
        let site = |change: &GroupChange| {
            (
                change.after.as_ref().map(|group| group.site.clone()),
                change.before.as_ref().map(|group| group.site.clone()),
            )
        };
        key(other).cmp(&key(one)).then_with(|| site(one).cmp(&site(other)))
    });
    changes.into_iter().map(|(_, change)| change).collect()
}

fn key(snapshot: &Snapshot, site: &Site) -> Key {
    let frames = |stack: StackIndex| {
        let frames = snapshot.stacks.frames(stack);
        frames.map(|frame| (frame.name.clone(), frame.filename.clone(), frame.line)).collect()
    };
    match site {
        Site::Stack(stack) => Key::Stack(frames(*stack)),
        Site::Size(bytes) => Key::Size(*bytes),
        _ => Key::Size(0),
    }
}
