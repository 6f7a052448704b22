//! Prints memory by pool: the default one, those of captured graphs, and the program's own.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel_snapshot::analysis::{IdlePool, PoolOf, PoolUse};

use super::{
    bytes::Bytes, fit::print_text, labels::pool_text, page::Page, segment_rows::print_sums, sites::Sites,
};

/// Prints what the segments of each pool hold and, if asked, what returns the free ones, if there are other pools than the default
/// one.
pub(crate) fn print_pools(
    uses: &[PoolUse],
    n: usize,
    sites: &Sites<'_>,
    with_advice: bool,
    out: &mut Page,
) -> io::Result<()> {
    if !has_private(uses) {
        return Ok(());
    }
    let sums: Vec<_> = uses.iter().map(|of| (pool_text(of.pool), &of.sum)).collect();
    writeln!(out)?;
    print_sums("pool", &sums, n, sites, out)?;
    [PoolOf::Graph, PoolOf::Program]
        .into_iter()
        .filter(|_| with_advice)
        .filter_map(|kind| returned(uses, kind))
        .try_for_each(|line| print_text(line, out))
}

/// Returns how to return the segments without a block in private pools of a kind, if there are any.
fn returned(uses: &[PoolUse], kind: PoolOf) -> Option<String> {
    let of_kind = || uses.iter().filter(|of| of.kind == kind);
    let sum = |bytes: fn(&PoolUse) -> u64| of_kind().map(bytes).fold(0, u64::saturating_add);
    let (free, empty) = (sum(|of| of.sum.free_bytes), sum(|of| of.sum.empty_bytes));
    let pools = match (of_kind().count(), kind) {
        (1, PoolOf::Program) => "1 MemPool keeps".to_owned(),
        (n, PoolOf::Program) => format!("{n} MemPools keep"),
        (1, _) => "1 graph pool keeps".to_owned(),
        (n, _) => format!("{n} graph pools keep"),
    };
    let by = kind.returned_by();
    (empty > 0)
        .then(|| format!("{pools} {} free, {} of it in empty segments: {by}", Bytes(free), Bytes(empty)))
}

/// Returns whether there are pools other than the default one.
pub(crate) fn has_private(uses: &[PoolUse]) -> bool {
    uses.iter().any(|of| of.kind != PoolOf::Default)
}

/// Prints the pools of captured graphs that no block uses.
pub(crate) fn print_idle_pools(pools: &[IdlePool], out: &mut Page) -> io::Result<()> {
    let of_graphs = pools.iter().filter(|idle| PoolOf::id(idle.pool) == PoolOf::Graph);
    of_graphs.into_iter().try_for_each(|IdlePool { pool, reserved_bytes, .. }| {
        let reserved = Bytes(*reserved_bytes);
        print_text(
            format!("note: pool {pool}: 0 B in use, {reserved} reserved, unused: a failed capture?"),
            out,
        )
    })
}
