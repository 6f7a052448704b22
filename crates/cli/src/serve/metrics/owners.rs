//! The owners in metrics: a bounded number, now and at the peak.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use memreel_snapshot::DeviceId;

use crate::run::figures::{Figures, OwnerBytes};

/// The owners of a device that have series of their own.
const N_OWNERS: usize = 20;

/// The name of the others together.
const OTHERS: &str = "others";

/// What the owners of each device had when a look found the most bytes in use, by tape and device.
#[derive(Debug, Default)]
pub(super) struct Owners(BTreeMap<(String, DeviceId), Peak>);

#[derive(Debug, Default)]
struct Peak {
    bytes: u64,
    owners: Vec<OwnerBytes>,
}

impl Owners {
    /// Adds small owners up, and keeps what there is if it is the most so far.
    pub(super) fn bound(&mut self, all: &mut [Figures]) {
        let mut before = std::mem::take(&mut self.0);
        for figures in all {
            fold(&mut figures.owners);
            let key = (figures.file.clone(), figures.device);
            let peak = before.remove(&key).unwrap_or_default();
            let bytes = figures.used_bytes.unwrap_or(figures.live_bytes);
            let is_peak = bytes >= peak.bytes;
            let peak = if is_peak { Peak { bytes, owners: figures.owners.clone() } } else { peak };
            self.0.insert(key, peak);
        }
    }

    /// Returns what the owners of a device had at its peak.
    pub(super) fn at_peak(&self, figures: &Figures) -> &[OwnerBytes] {
        let peak = self.0.get(&(figures.file.clone(), figures.device));
        peak.map_or(&[], |peak| &peak.owners)
    }
}

/// Leaves the largest owners, which come first, and one row for the others.
fn fold(owners: &mut Vec<OwnerBytes>) {
    if let Some(rest) = owners.get(N_OWNERS..).filter(|rest| !rest.is_empty()) {
        let bytes = rest.iter().fold(0_i64, |all, owner| all.saturating_add(owner.bytes));
        let kind = rest[0].kind;
        owners.truncate(N_OWNERS);
        owners.push(OwnerBytes { owner: OTHERS.to_owned(), kind, bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memreel_snapshot::analysis::RowKind;

    #[test]
    fn small_owners_are_one() {
        let owner =
            |nth: i64| OwnerBytes { owner: format!("lib{nth}.so"), kind: RowKind::Owner, bytes: 100 - nth };
        let mut owners: Vec<OwnerBytes> = (0..50).map(owner).collect();
        let sum = |owners: &[OwnerBytes]| owners.iter().map(|owner| owner.bytes).sum::<i64>();
        let before = sum(&owners);
        fold(&mut owners);
        assert_eq!((owners.len(), sum(&owners)), (N_OWNERS + 1, before));
        assert_eq!((owners[0].bytes, &*owners[N_OWNERS].owner), (100, OTHERS));
        let mut few = owners[..3].to_vec();
        fold(&mut few);
        assert_eq!(few, owners[..3]);
    }
}
