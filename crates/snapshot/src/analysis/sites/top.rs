//! Shows what holds the memory at a moment: by stack, function, file or scope, or as a tree of calls.

use std::hash::Hash;

use serde::{Serialize, Serializer};

use super::{
    owner_groups::OwnedMemory,
    same_calls::SameCalls,
    site::{BlockNames, Site},
    with_frames::AtSite,
};
use crate::{
    analysis::{DeviceHistory, Pools},
    history::{Life, Moment, TextIds},
    model::{FrameIndex, Text},
    words::{SeededMap, SeededSet},
};

/// The property by which blocks are grouped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum By {
    /// The calls that identify the code that allocated.
    #[default]
    Stack,
    /// The function.
    Function,
    /// The source file.
    File,
    /// The line of the source file.
    Line,
    /// The scope.
    Scope,
    /// The name that the program gave the block ([`DeviceHistory::names_of`]).
    Name,
    /// The stream.
    Stream,
    /// The pool ([`Pools`](crate::analysis::Pools)).
    Pool,
    /// The library or the program that requested device memory: groups segments, not blocks.
    Owner,
}

/// Blocks of the same site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Group {
    /// The site.
    #[serde(skip)]
    pub site: Site,
    /// The bytes that were requested for them ([`Life::represented_bytes`]); for a function or a file, those that it
    /// requested itself.
    pub bytes: u64,
    /// The number of blocks.
    #[serde(rename = "blocks")]
    pub n_blocks: usize,
    /// For a function or a file, the bytes that it and its callees requested; otherwise the same as `bytes`.
    pub total_bytes: u64,
    /// The number of recorded stacks among them; 0 for a scope.
    #[serde(rename = "stacks", skip_serializing_if = "is_zero")]
    pub n_stacks: usize,
    /// The names of the blocks among them that have one ([`DeviceHistory::names_of`]), each once, in the order
    /// of the allocations.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "texts")]
    pub names: Vec<Text>,
    /// For what was allocated over a whole run ([`DeviceHistory::groups_of`]), the most bytes that were live at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// Whether `peak_bytes`, if there is one, is only an upper bound: the peaks of several stacks need not coincide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_is_at_most: Option<bool>,
    /// The lower bound of the peak, and what the group had when the device had the most.
    #[serde(skip)]
    pub(crate) least_peak_bytes: u64,
    #[serde(skip)]
    pub(crate) at_peak_bytes: u64,
}

impl AtSite for Group {
    fn site(&self) -> Option<&Site> {
        Some(&self.site)
    }
}

impl DeviceHistory<'_> {
    /// Returns the groups of the blocks in use at a moment, the largest first; [`By::Owner`] groups device memory.
    ///
    /// A function's own bytes are those of the stacks whose innermost identifying frame
    /// ([`ShownFrames::identifying`](crate::analysis::ShownFrames::identifying)) is in the function. Its total counts each block
    /// once, even if the function is on the stack several times.
    #[must_use]
    pub fn top(&self, moment: Moment, by: By) -> Vec<Group> {
        self.of_lives(self.lives_at(moment), by)
            .unwrap_or_else(|| sorted(self.owned_at(moment).into_iter().map(Group::of_owner).collect()))
    }

    /// Groups lives, the largest group first; `None` by owner, because owners have segments and not blocks.
    pub(super) fn of_lives<'l>(&self, lives: impl Iterator<Item = &'l Life>, by: By) -> Option<Vec<Group>> {
        match by {
            By::Stack => Some(self.by_calls(lives)),
            By::Scope => {
                let scopes = self.scopes();
                Some(self.grouped(lives, |life| match scopes.of_life(life) {
                    Some(scope) => Site::Scope(scope.clone()),
                    None => Site::Before,
                }))
            }
            By::Name => Some(self.grouped_by(
                lives,
                |life| self.name_numbers(life),
                |numbers| self.site_of_names(numbers),
            )),
            By::Stream => Some(self.grouped(lives, |life| Site::Stream(life.stream))),
            By::Pool => {
                let pools = Pools::new(self);
                Some(self.grouped(lives, |life| Site::Pool(pools.of(life))))
            }
            By::Owner => None,
            By::Function | By::File | By::Line => {
                Some(by_frame(self, self.grouped(lives, Site::from_life), by))
            }
        }
    }
}

impl DeviceHistory<'_> {
    /// Returns the groups of the blocks that the program holds at a moment, by stack, the largest first.
    #[must_use]
    pub fn held_at(&self, moment: Moment) -> Vec<Group> {
        self.by_calls(self.lives_at(moment).filter(|life| life.is_allocated_at(moment)))
    }

    /// Returns the groups of the blocks that are pending at a moment, by stack, largest first.
    #[must_use]
    pub fn pending_at(&self, moment: Moment) -> Vec<Group> {
        self.by_calls(self.lives_at(moment).filter(|life| !life.is_allocated_at(moment)))
    }

    /// Groups lives by the calls that identify the code that allocated them, the largest group first.
    pub(crate) fn by_calls<'l>(&self, lives: impl Iterator<Item = &'l Life>) -> Vec<Group> {
        let of_stacks = self.grouped(lives, Site::from_life);
        sorted(SameCalls::new(self).add_up(of_stacks, |group| &group.site, Group::join))
    }

    /// Groups lives by their sites, the largest group first.
    pub(super) fn grouped<'l>(
        &self,
        lives: impl Iterator<Item = &'l Life>,
        site: impl Fn(&Life) -> Site,
    ) -> Vec<Group> {
        self.grouped_by(lives, site, Site::clone)
    }

    /// Groups lives by a key of their site, the largest group first.
    fn grouped_by<'l, K: Eq + Hash>(
        &self,
        lives: impl Iterator<Item = &'l Life>,
        key: impl Fn(&Life) -> K,
        site: impl Fn(&K) -> Site,
    ) -> Vec<Group> {
        let mut groups: SeededMap<K, Group> = SeededMap::default();
        for life in lives {
            let group = groups.entry(key(life)).or_insert_with_key(|key| Group::new(site(key)));
            group.add(life.represented_bytes, 1);
            group.names.extend(self.name_texts(life).into_iter().cloned());
            group.total_bytes = group.bytes;
            group.n_stacks = usize::from(matches!(group.site, Site::Stack(_)));
        }
        sorted(groups.into_values().collect())
    }

    fn site_of_names(&self, numbers: &[u32]) -> Site {
        match numbers {
            [] => Site::NoName,
            _ => Site::Name(BlockNames::new(self.texts_of_names(numbers))),
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_zero(n: &usize) -> bool {
    *n == 0
}

fn texts<S: Serializer>(texts: &[Text], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(texts.iter().map(|text| &**text))
}

impl Group {
    /// Returns the bytes and the number of blocks of all groups.
    #[must_use]
    pub fn sum(groups: &[Group]) -> (u64, usize) {
        let add = |(bytes, blocks): (u64, usize), group: &Group| {
            (bytes.saturating_add(group.bytes), blocks.saturating_add(group.n_blocks))
        };
        groups.iter().fold((0, 0), add)
    }

    pub(crate) fn new(site: Site) -> Group {
        Group {
            site,
            bytes: 0,
            n_blocks: 0,
            total_bytes: 0,
            n_stacks: 0,
            names: Vec::new(),
            peak_bytes: None,
            peak_is_at_most: None,
            least_peak_bytes: 0,
            at_peak_bytes: 0,
        }
    }

    /// Returns the segments of an owner; the number of blocks is that of segments.
    fn of_owner(owned: OwnedMemory) -> Group {
        let OwnedMemory { owner, bytes, n_holdings, n_stacks } = owned;
        Group { bytes, total_bytes: bytes, n_blocks: n_holdings, n_stacks, ..Group::new(Site::Owner(owner)) }
    }

    pub(super) fn add(&mut self, bytes: u64, n_blocks: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.n_blocks = self.n_blocks.saturating_add(n_blocks);
    }

    /// Adds the blocks of another group of the same site.
    pub(crate) fn join(&mut self, other: Group) {
        self.add(other.bytes, other.n_blocks);
        self.names.extend(other.names);
        self.total_bytes = self.total_bytes.saturating_add(other.total_bytes);
        self.n_stacks += other.n_stacks;
        self.peak_bytes = self.peak_bytes.zip(other.peak_bytes).map(|(one, other)| one.saturating_add(other));
        self.at_peak_bytes = self.at_peak_bytes.saturating_add(other.at_peak_bytes);
        self.least_peak_bytes = self.least_peak_bytes.max(other.least_peak_bytes).max(self.at_peak_bytes);
    }
}

pub(crate) fn sorted(mut groups: Vec<Group>) -> Vec<Group> {
    groups.sort_by(|one, other| {
        let key = |group: &Group| (group.bytes, group.total_bytes, group.n_blocks);
        key(other).cmp(&key(one)).then_with(|| one.site.cmp(&other.site))
    });
    keep_names_once(&mut groups);
    groups
}

/// Drops the names that a group already has.
fn keep_names_once(groups: &mut [Group]) {
    let several: Vec<&mut Group> = groups.iter_mut().filter(|group| group.names.len() > 1).collect();
    let mut ids = TextIds::default();
    let all: Vec<Vec<Text>> = several.iter().map(|group| group.names.clone()).collect();
    for (group, names) in several.into_iter().zip(&all) {
        let mut seen = SeededSet::default();
        let mut is_new = names.iter().map(|name| seen.insert(ids.id(name)));
        group.names.retain(|_| is_new.next().unwrap_or(false));
    }
}

/// Groups blocks by the functions, files or lines of frames. It examines each stack once, with the sum of its blocks,
/// and each text once.
pub(crate) fn by_frame(history: &DeviceHistory<'_>, of_stacks: Vec<Group>, by: By) -> Vec<Group> {
    let snapshot = history.snapshot();
    let shown = history.shown_frames();
    let mut ids = TextIds::default();
    let mut key = |frame: FrameIndex| {
        let frame = snapshot.stacks.frame(frame);
        let name = if by == By::Function { Some(ids.id(&frame.name)) } else { None };
        Some((name, ids.id(&frame.filename), if by == By::Line { frame.line } else { 0 }))
    };
    let site = |frame: Option<FrameIndex>| match frame.map(|frame| snapshot.stacks.frame(frame)) {
        Some(frame) if by == By::Function => {
            Site::Function { name: frame.name.clone(), filename: frame.filename.clone() }
        }
        Some(frame) if by == By::Line => Site::Line { filename: frame.filename.clone(), line: frame.line },
        Some(frame) => Site::File(frame.filename.clone()),
        None if by == By::Function => Site::NoStack,
        None => Site::NoFile,
    };
    let mut groups: SeededMap<_, Group> = SeededMap::default();
    let mut keys = Vec::new();
    for of_stack in of_stacks {
        keys.clear();
        if let Site::Stack(stack) = of_stack.site {
            keys.extend(shown.identifying(stack).map(|frame| (key(frame), Some(frame))));
        }
        let (own, frame) = keys.first().copied().unwrap_or((None, None));
        let group = groups.entry(own).or_insert_with(|| Group::new(site(frame)));
        group.add(of_stack.bytes, of_stack.n_blocks);
        group.n_stacks += of_stack.n_stacks;
        group.names.extend(of_stack.names);
        keys.push((own, frame));
        keys.sort_unstable();
        keys.dedup_by_key(|(key, _)| *key);
        for (key, frame) in keys.drain(..) {
            let group = groups.entry(key).or_insert_with(|| Group::new(site(frame)));
            group.total_bytes = group.total_bytes.saturating_add(of_stack.bytes);
        }
    }
    sorted(groups.into_values().collect())
}
