//! What holds the memory at a moment: by stack, function, file or scope, or as a tree of calls.

use std::collections::HashSet;

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::{frames::ShownFrames, same_calls::SameCalls, site::Site, state::DeviceHistory};
use crate::{
    history::{Life, Moment, Scopes},
    snapshot::{FrameIndex, Snapshot},
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
    /// The scope.
    Scope,
    /// The name that the program gave the block ([`DeviceHistory::names_of`]).
    Name,
}

/// Blocks of the same site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Group {
    /// The site.
    #[serde(skip)]
    pub site: Site,
    /// The bytes that were requested for them; of a function or a file, those that it requested itself.
    pub bytes: u64,
    /// The number of blocks.
    #[serde(rename = "blocks")]
    pub n_blocks: usize,
    /// Of a function or a file, the bytes that it and everything that it called requested; otherwise
    /// the same as `bytes`.
    pub total_bytes: u64,
    /// The number of recorded stacks among them; 0 for a scope.
    #[serde(rename = "stacks", skip_serializing_if = "is_zero")]
    pub n_stacks: usize,
    /// The names of the blocks among them that have one ([`DeviceHistory::names_of`]), each once, in the order
    /// of the allocations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl DeviceHistory<'_> {
    /// Returns the groups of the blocks in use at a moment, the largest first.
    ///
    /// A function's own bytes are those of the stacks whose innermost identifying frame
    /// ([`ShownFrames::identifying`]) is in the function. Its total counts each block once, even if the
    /// function is on the stack several times.
    #[must_use]
    pub fn top(&self, moment: Moment, by: By) -> Vec<Group> {
        match by {
            By::Stack => self.by_calls(self.lives_at(moment)),
            By::Scope => {
                let scopes = Scopes::new(self.snapshot(), self.device());
                self.grouped(self.lives_at(moment), |life| match scopes.of_life(life) {
                    Some(scope) => Site::Scope(scope.to_owned()),
                    None => Site::Before,
                })
            }
            By::Name => self.grouped(self.lives_at(moment), |life| match &self.names_of(life)[..] {
                [] => Site::NoName,
                names => Site::Name(names.join(", ")),
            }),
            By::Function => by_frame(self, moment, &Site::NoStack, |snapshot, frame| {
                let frame = snapshot.stacks.frame(frame);
                Site::Function { name: frame.name.clone(), filename: frame.filename.clone() }
            }),
            By::File => by_frame(self, moment, &Site::NoFile, |snapshot, frame| {
                Site::File(snapshot.stacks.frame(frame).filename.clone())
            }),
        }
    }
}

impl DeviceHistory<'_> {
    /// Returns the groups of the blocks that the program holds at a moment, by stack, the largest first.
    #[must_use]
    pub fn held_at(&self, moment: Moment) -> Vec<Group> {
        self.by_calls(self.lives_at(moment).filter(|life| life.is_allocated_at(moment)))
    }

    /// Returns the groups of the blocks whose free waits for a stream at a moment, by stack, the largest first.
    #[must_use]
    pub fn pending_at(&self, moment: Moment) -> Vec<Group> {
        self.by_calls(self.lives_at(moment).filter(|life| !life.is_allocated_at(moment)))
    }

    /// Groups lives by the calls that identify the code that allocated them, the largest group first.
    pub(super) fn by_calls<'l>(&self, lives: impl Iterator<Item = &'l Life>) -> Vec<Group> {
        let of_stacks = self.grouped(lives, Site::from_life);
        sorted(SameCalls::new(self.snapshot()).add_up(of_stacks, |group| &group.site, Group::join))
    }

    /// Groups lives by their sites, the largest group first.
    fn grouped<'l>(&self, lives: impl Iterator<Item = &'l Life>, site: impl Fn(&Life) -> Site) -> Vec<Group> {
        let mut groups: FxHashMap<Site, Group> = FxHashMap::default();
        for life in lives {
            let site = site(life);
            let group = groups.entry(site).or_insert_with_key(|site| Group::new(site.clone()));
            group.add(life.requested_bytes, 1);
            group.names.extend(self.names_of(life).into_iter().map(String::from));
            group.total_bytes = group.bytes;
            group.n_stacks = usize::from(matches!(group.site, Site::Stack(_)));
        }
        sorted(groups.into_values().collect())
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl Group {
    fn new(site: Site) -> Group {
        Group { site, bytes: 0, n_blocks: 0, total_bytes: 0, n_stacks: 0, names: Vec::new() }
    }

    fn add(&mut self, bytes: u64, n_blocks: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.n_blocks += n_blocks;
    }

    /// Adds the blocks of another group of the same site.
    fn join(&mut self, other: Group) {
        self.add(other.bytes, other.n_blocks);
        self.names.extend(other.names);
        self.total_bytes = self.total_bytes.saturating_add(other.total_bytes);
        self.n_stacks += other.n_stacks;
    }
}

fn sorted(mut groups: Vec<Group>) -> Vec<Group> {
    groups.sort_by(|one, other| {
        let key = |group: &Group| (group.bytes, group.total_bytes, group.n_blocks);
        key(other).cmp(&key(one)).then_with(|| one.site.cmp(&other.site))
    });
    for group in groups.iter_mut().filter(|group| group.names.len() > 1) {
        let mut seen = HashSet::new();
        group.names.retain(|name| seen.insert(name.clone()));
    }
    groups
}

/// Groups blocks by a property of frames; those without a stack are of the site `none`. It looks at each stack
/// once, with the sum of its blocks.
fn by_frame(
    history: &DeviceHistory<'_>,
    moment: Moment,
    none: &Site,
    site: impl Fn(&Snapshot, FrameIndex) -> Site,
) -> Vec<Group> {
    let snapshot = history.snapshot();
    let shown = ShownFrames::new(snapshot);
    let mut groups: FxHashMap<Site, Group> = FxHashMap::default();
    let mut sites: Vec<Site> = Vec::new();
    for of_stack in history.grouped(history.lives_at(moment), Site::from_life) {
        sites.clear();
        if let Site::Stack(stack) = of_stack.site {
            sites.extend(shown.identifying(stack).map(|frame| site(snapshot, frame)));
        }
        let own = sites.first().unwrap_or(none).clone();
        let group = groups.entry(own.clone()).or_insert_with_key(|site| Group::new(site.clone()));
        group.add(of_stack.bytes, of_stack.n_blocks);
        group.n_stacks += of_stack.n_stacks;
        group.names.extend(of_stack.names);
        sites.push(own);
        sites.sort_unstable();
        sites.dedup();
        for site in sites.drain(..) {
            let group = groups.entry(site).or_insert_with_key(|site| Group::new(site.clone()));
            group.total_bytes = group.total_bytes.saturating_add(of_stack.bytes);
        }
    }
    sorted(groups.into_values().collect())
}

/// A line of the tree of calls that allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Branch {
    /// The number of lines above it that lead to it. A call that accounts for all bytes of its caller has
    /// the depth of the caller.
    pub depth: usize,
    /// The call, of several frames with the same name, file and line the first; `None` for blocks without a
    /// stack.
    pub frame: Option<FrameIndex>,
    /// The requested bytes of the blocks that it and everything that it called allocated.
    pub bytes: u64,
    /// The number of these blocks.
    pub n_blocks: usize,
    /// Whether it accounts for all bytes of the call on the line before.
    pub continues: bool,
}

impl DeviceHistory<'_> {
    /// Returns the tree of the calls that allocated the blocks in use at a moment, from the outermost call
    /// inward and the largest first. Branches of fewer than `least_bytes` bytes are not included.
    #[must_use]
    pub fn tree(&self, moment: Moment, least_bytes: u64) -> Vec<Branch> {
        let same = SameCalls::new(self.snapshot());
        let mut nodes = vec![Node::default()];
        let mut children: FxHashMap<(usize, Option<FrameIndex>), usize> = FxHashMap::default();
        for group in self.grouped(self.lives_at(moment), Site::from_life) {
            let frames: Vec<Option<FrameIndex>> = match group.site {
                Site::Stack(stack) => same.calls(stack).rev().map(Some).collect(),
                _ => vec![None],
            };
            let mut node = 0;
            for frame in frames {
                let child = *children.entry((node, frame)).or_insert_with(|| {
                    nodes.push(Node { frame, ..Node::default() });
                    let child = nodes.len() - 1;
                    nodes[node].children.push(child);
                    child
                });
                nodes[child].bytes = nodes[child].bytes.saturating_add(group.bytes);
                nodes[child].n_blocks += group.n_blocks;
                node = child;
            }
        }
        preorder(&nodes, least_bytes)
    }
}

#[derive(Debug, Default)]
struct Node {
    frame: Option<FrameIndex>,
    bytes: u64,
    n_blocks: usize,
    children: Vec<usize>,
}

/// Returns the lines of the tree. It does not recurse, because stacks of a file can have any depth.
fn preorder(nodes: &[Node], least_bytes: u64) -> Vec<Branch> {
    let mut lines = Vec::new();
    let mut open = vec![(0, 0)];
    let mut before = 0;
    while let Some((index, depth)) = open.pop() {
        let node = &nodes[index];
        if index > 0 {
            let continues =
                before > 0 && nodes[before].children == [index] && nodes[before].bytes == node.bytes;
            let Node { frame, bytes, n_blocks, .. } = *node;
            lines.push(Branch { depth, frame, bytes, n_blocks, continues });
        }
        before = index;
        let mut kept: Vec<usize> =
            node.children.iter().copied().filter(|child| nodes[*child].bytes >= least_bytes.max(1)).collect();
        kept.sort_by_key(|child| (nodes[*child].bytes, std::cmp::Reverse(*child)));
        let is_line = index > 0 && !(node.children.len() == 1 && nodes[node.children[0]].bytes == node.bytes);
        let depth = if is_line { depth + 1 } else { depth };
        open.extend(kept.into_iter().map(|child| (child, depth)));
    }
    lines
}
