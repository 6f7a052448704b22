//! The sum of groups.

use memreel_snapshot::analysis::Group;

/// Returns the bytes and the number of blocks of all groups.
pub(crate) fn sum(groups: &[Group]) -> (u64, usize) {
    let add = |(bytes, blocks): (u64, usize), group: &Group| {
        (bytes.saturating_add(group.bytes), blocks.saturating_add(group.n_blocks))
    };
    groups.iter().fold((0, 0), add)
}
