//! Rows of a process's resident memory, which are added up by kind and owner.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use crate::{
    analysis::owners::{earlier_peak::OfOwner, mapped::MappedStack, owner_row::RowKind},
    model::{Snapshot, StackIndex, Text},
    words::{ResidentArea, SeededMap},
};

/// The owner of what `malloc` has and no block has.
pub(super) const MALLOC_FREE: &str = "malloc, unused";
pub(super) const MALLOC_HEADERS: &str = "malloc, headers";

/// What the program maps itself, where nothing else is known of it.
pub(super) const ANONYMOUS: &str = "anonymous mappings";

/// Bytes of one owner, or of one kind.
#[derive(Clone, Debug)]
pub(crate) struct SightRow {
    pub(crate) kind: RowKind,
    pub(crate) owner: Text,
    pub(crate) bytes: u64,
    /// The same, where a page of `n` processes counts as an `n`th.
    pub(crate) shared_out_bytes: u64,
    /// The stack that asked for the most of it.
    pub(crate) largest: Option<(StackIndex, u64)>,
    /// The stack that mapped the most of it.
    pub(crate) mapped: Option<MappedStack>,
    /// The file with the most of it.
    pub(crate) file: Option<(String, u64)>,
}

/// Returns a share of bytes.
fn part_of(bytes: u64, part: u128, of: u128) -> u64 {
    // The part is no larger than the whole.
    u64::try_from(u128::from(bytes) * part / of.max(1)).unwrap_or(bytes)
}

/// Returns what bytes of an area count where a page of `n` processes counts as an `n`th.
pub(super) fn shared_out(bytes: u64, area: &ResidentArea) -> u64 {
    let of_area = u128::from(bytes) * u128::from(area.shared_out_bytes);
    u64::try_from(of_area / u128::from(area.resident_bytes.max(1))).unwrap_or(bytes)
}

/// Adds what a file may have as any number.
pub(super) fn add(sum: &mut u64, bytes: u64) {
    *sum = sum.saturating_add(bytes);
}

/// Returns the stack with the most bytes.
fn largest(stacks: SeededMap<StackIndex, u64>) -> Option<(StackIndex, u64)> {
    stacks.into_iter().max_by_key(|(stack, bytes)| (*bytes, Reverse(*stack)))
}

/// Rows that are added up.
#[derive(Default)]
pub(super) struct SightRows(BTreeMap<(RowKind, Text), SightSum>);

/// The sums of one row.
#[derive(Default)]
pub(super) struct SightSum {
    bytes: u64,
    shared_out_bytes: u64,
    stacks: SeededMap<StackIndex, u64>,
    mapped: SeededMap<StackIndex, u64>,
    /// The stack with the most, of blocks of which the sums alone are known.
    of_sums: Option<MappedStack>,
    files: BTreeMap<String, u64>,
}

impl SightSum {
    pub(super) fn stack(&mut self, stack: Option<StackIndex>, bytes: u64) {
        if let Some(stack) = stack {
            add(self.stacks.entry(stack).or_default(), bytes);
        }
    }

    pub(super) fn mapped(&mut self, stack: StackIndex, bytes: u64) {
        add(self.mapped.entry(stack).or_default(), bytes);
    }

    pub(super) fn file(&mut self, name: &str, bytes: u64) {
        if !name.is_empty() {
            add(self.files.entry(name.to_owned()).or_default(), bytes);
        }
    }
}

impl SightRows {
    pub(super) fn add(
        &mut self,
        kind: RowKind,
        owner: &str,
        bytes: u64,
        area: &ResidentArea,
    ) -> &mut SightSum {
        self.add_sums(kind, owner.into(), bytes, shared_out(bytes, area))
    }

    pub(super) fn add_sums(
        &mut self,
        kind: RowKind,
        owner: Text,
        bytes: u64,
        shared_out_bytes: u64,
    ) -> &mut SightSum {
        let row = self.0.entry((kind, owner)).or_default();
        self::add(&mut row.bytes, bytes);
        self::add(&mut row.shared_out_bytes, shared_out_bytes);
        row
    }

    /// Gives owners what is resident of blocks whose addresses are not known: as much as they have, and first of what would be
    /// unused otherwise. If less is resident, each has the same share of what it asked for.
    pub(super) fn give_to(&mut self, owners: &BTreeMap<Text, OfOwner>) {
        let asked: u128 = owners.values().map(|of| u128::from(of.bytes)).sum();
        let (mut given, mut shared_out) = (0_u64, 0_u64);
        for (kind, name) in [(RowKind::Allocator, MALLOC_FREE), (RowKind::Mapped, ANONYMOUS)] {
            let Some(row) = self.0.get_mut(&(kind, name.into())) else { continue };
            let wanted = u64::try_from(asked.saturating_sub(u128::from(given))).unwrap_or(u64::MAX);
            let bytes = wanted.min(row.bytes);
            let of_it = part_of(row.shared_out_bytes, bytes.into(), row.bytes.into());
            (row.bytes, row.shared_out_bytes) = (row.bytes - bytes, row.shared_out_bytes - of_it);
            (given, shared_out) = (given.saturating_add(bytes), shared_out.saturating_add(of_it));
        }
        for (owner, of) in owners {
            let row = self.0.entry((RowKind::Owner, owner.clone())).or_default();
            row.bytes = part_of(given, of.bytes.into(), asked);
            row.shared_out_bytes = part_of(shared_out, of.bytes.into(), asked);
            row.of_sums = Some(of.largest.clone());
        }
    }

    /// Returns the rows. `stacks` has those that mapped memory.
    pub(super) fn all(self, stacks: &Arc<Snapshot>) -> Vec<SightRow> {
        let mapped = |(stack, bytes)| MappedStack { stacks: stacks.clone(), stack, bytes };
        let row = |((kind, owner), row): ((RowKind, Text), SightSum)| SightRow {
            kind,
            owner,
            bytes: row.bytes,
            shared_out_bytes: row.shared_out_bytes,
            largest: largest(row.stacks),
            mapped: row.of_sums.or_else(|| largest(row.mapped).map(mapped)),
            file: row.files.into_iter().max_by_key(|(_, bytes)| *bytes),
        };
        self.0.into_iter().map(row).filter(|row| row.bytes > 0).collect()
    }
}
