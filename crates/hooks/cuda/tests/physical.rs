//! Which mapping counts which part of physical memory, against an array with the mapping that counts each byte.

#[path = "../src/physical.rs"]
#[allow(dead_code, reason = "the library uses the rest")]
mod physical;

use std::{collections::BTreeMap, ops::Range};

use memreel_testing::random::Random;
use physical::{Owner, Physical};

const BYTES: u64 = 24;

/// Physical memory, and what is expected of it.
struct Model {
    physical: Physical,
    mappings: BTreeMap<u64, Range<u64>>,
    /// The mapping that counts each byte.
    by: Vec<Option<u64>>,
}

impl Model {
    fn map(&mut self, address: u64, range: Range<u64>) {
        let of_range = || range.clone().map(|at| at as usize);
        assert_eq!(self.physical.is_counted(&range), of_range().any(|at| self.by[at].is_some()));
        let n_free = of_range().filter(|at| self.by[*at].is_none()).count();
        assert_eq!(self.physical.map(address, &range), n_free as u64);
        of_range().for_each(|at| _ = self.by[at].get_or_insert(address));
        self.mappings.insert(address, range);
    }

    fn unmap(&mut self, address: u64) {
        let gone = self.mappings.remove(&address).unwrap();
        let counts = |by: &[Option<u64>], of| by.iter().filter(|by| **by == Some(of)).count() as u64;
        let (n_counted, before) = (counts(&self.by, address), self.by.clone());
        self.by.iter_mut().filter(|by| **by == Some(address)).for_each(|by| *by = None);
        for (heir, range) in &self.mappings {
            range.clone().for_each(|at| _ = self.by[at as usize].get_or_insert(*heir));
        }
        let more = self.mappings.keys().map(|heir| (*heir, counts(&self.by, *heir) - counts(&before, *heir)));
        let heirs: Vec<(u64, u64)> = more.filter(|(_, n)| *n > 0).collect();
        assert_eq!(self.physical.unmap(address, &gone), (n_counted, heirs));
    }

    fn check(&self) {
        assert_eq!(self.physical.counted_bytes(), self.by.iter().flatten().count() as u64);
        for (address, range) in &self.mappings {
            let pieces = self.physical.pieces(*address, range);
            assert!(pieces.iter().flat_map(|piece| piece.range.clone()).eq(range.clone()));
            for piece in pieces {
                let is_counted = |at: u64| self.by[at as usize] == Some(*address);
                assert!(piece.range.clone().all(|at| is_counted(at) == piece.is_counted));
            }
        }
    }
}

#[test]
fn each_byte_is_counted_once_by_a_mapping_that_has_it() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let physical = Physical::new(Owner::Device(0), BYTES);
        let mut model = Model { physical, mappings: BTreeMap::new(), by: vec![None; BYTES as usize] };
        for address in 0..60 {
            if random.chance(2) || model.mappings.is_empty() {
                let from = random.below(BYTES);
                model.map(address, from..from + 1 + random.below(BYTES - from));
            } else {
                let gone = *model.mappings.keys().nth(random.index(model.mappings.len())).unwrap();
                model.unmap(gone);
            }
            model.check();
        }
    }
}
