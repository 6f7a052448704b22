//! The entries of a file: all of them, or where they stand so that they can be decoded again.

#![forbid(unsafe_code)]

use std::ops::Range;

use super::node::number;
use crate::snapshot::{TraceEntry, UseCounts};

/// What has become of the entries that were decoded so far, numbered in the order of the file.
#[derive(Debug)]
pub(super) enum Entries {
    /// They are held.
    Held(Vec<TraceEntry>),
    /// They stay in the file.
    Left(Pieces),
}

impl Default for Entries {
    fn default() -> Self {
        Entries::Held(Vec::new())
    }
}

impl Entries {
    /// How many there are, and so the number of the next.
    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        match self {
            Entries::Held(all) => number(all.len()),
            Entries::Left(pieces) => pieces.n_entries,
        }
    }

    /// Takes an entry that the fast road decoded from these bytes.
    #[inline(always)]
    pub(super) fn push(&mut self, entry: TraceEntry, begin: usize, end: usize) {
        match self {
            Entries::Held(all) => all.push(entry),
            Entries::Left(pieces) => {
                pieces.uses.add(&entry);
                pieces.push(begin, end);
            }
        }
    }

    /// Takes an entry that only the general machine can decode.
    pub(super) fn keep(&mut self, entry: TraceEntry) {
        match self {
            Entries::Held(all) => all.push(entry),
            Entries::Left(pieces) => {
                pieces.uses.add(&entry);
                pieces.keep(entry);
            }
        }
    }
}

/// A part of a file's entries.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece {
    /// Entries side by side: where the first begins.
    Run(usize),
    /// One that has to be kept.
    Kept(TraceEntry),
}

/// Where entries stand. A run is as long as a batch of the file, mostly a thousand entries.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// With the number of the first entry of each.
    all: Vec<(u32, Piece)>,
    n_entries: u32,
    /// Where the run that is open ends: an entry that begins there goes on with it.
    end: Option<usize>,
    n_in_run: usize,
    /// Counted while they are decoded for the first time.
    pub(super) uses: UseCounts,
}

/// A longer run is cut, so that one entry of it is found without decoding all before.
const MAX_RUN: usize = 4096;

impl Pieces {
    #[inline(always)]
    fn push(&mut self, begin: usize, end: usize) {
        if self.end != Some(begin) || self.n_in_run == MAX_RUN {
            self.all.push((self.n_entries, Piece::Run(begin)));
            self.n_in_run = 0;
        }
        self.end = Some(end);
        self.n_in_run += 1;
        self.n_entries += 1;
    }

    fn keep(&mut self, entry: TraceEntry) {
        self.all.push((self.n_entries, Piece::Kept(entry)));
        self.end = None;
        self.n_entries += 1;
    }

    pub(super) fn len(&self) -> u32 {
        self.n_entries
    }

    #[cfg(test)]
    pub(super) fn n_pieces(&self) -> usize {
        self.all.len()
    }

    /// The piece that an entry is in, with the numbers of the piece's entries.
    pub(super) fn of(&self, entry: u32) -> Option<(Range<u32>, Piece)> {
        let at = self.all.partition_point(|(first, _)| *first <= entry).checked_sub(1)?;
        let end = self.all.get(at + 1).map_or(self.n_entries, |(next, _)| *next);
        let (first, piece) = self.all[at];
        (entry < end).then_some((first..end, piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_side_by_side_are_one_piece() {
        let mut pieces = Pieces::default();
        pieces.push(10, 20);
        pieces.push(20, 25);
        pieces.keep(TraceEntry::default());
        pieces.push(30, 40);
        pieces.push(42, 50);
        let found: Vec<_> = (0..6).map(|entry| pieces.of(entry)).collect();
        let range = |entry: usize| found[entry].as_ref().map(|(range, _)| range.clone());
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(range),
            [Some(0..2), Some(0..2), Some(2..3), Some(3..4), Some(4..5), None]
        );
        assert!(
            matches!(found[1], Some((_, Piece::Run(10)))) && matches!(found[4], Some((_, Piece::Run(42))))
        );
        assert!(matches!(found[2], Some((_, Piece::Kept(_)))));
    }
}
