//! Blocks of pinned memory that may be larger than their requests, because PyTorch rounds those up to powers of two.

use std::collections::BTreeMap;

use crate::{analysis::state::Holding, history::Moment};

/// The blocks of one process, at the moment with the most bytes in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct RoundedBlocks {
    pub(super) n_blocks: u64,
    pub(super) bytes: u64,
}

impl RoundedBlocks {
    /// Returns those of PyTorch's pinned memory.
    pub(super) fn of(holdings: &[Holding]) -> RoundedBlocks {
        let mut changes: BTreeMap<Moment, (i128, i128)> = BTreeMap::new();
        for holding in holdings.iter().filter(|holding| holding.bytes.is_power_of_two()) {
            for (moment, sign) in [(holding.from, 1), (holding.until, -1)] {
                let (n, bytes) = changes.entry(moment).or_default();
                (*n, *bytes) = (*n + sign, *bytes + sign * i128::from(holding.bytes));
            }
        }
        let levels = changes.into_values().scan((0, 0), |level, (n, bytes)| {
            *level = (level.0 + n, level.1 + bytes);
            Some(*level)
        });
        let (n_blocks, bytes) = levels.max_by_key(|(_, bytes)| *bytes).unwrap_or_default();
        let [n_blocks, bytes] = [n_blocks, bytes].map(|level| u64::try_from(level).unwrap_or(u64::MAX));
        RoundedBlocks { n_blocks, bytes }
    }
}
