//! The blocks by size, the largest first, so that those that a picture shows are found in one pass.

#![forbid(unsafe_code)]

use std::cmp::Reverse;

use memreel_snapshot::{
    analysis::DeviceHistory,
    history::{Life, Moment},
};

/// The moments of a block, and its number.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: Moment,
    until: Moment,
    life: u32,
}

/// Lives of a device by the bytes that they count for.
pub(super) struct Sizes(Vec<Span>);

/// Which lives a picture shows.
#[derive(Debug)]
pub(super) struct ShownLives {
    /// The numbers of the lives, the largest first.
    pub(super) lives: Vec<u32>,
    /// Whether these are all that are in use at some moment of the window.
    pub(super) are_all: bool,
}

impl Sizes {
    pub(super) fn new(history: &DeviceHistory<'_>) -> Sizes {
        let lives = history.lives();
        Sizes::sorted(lives, (0..).take(lives.len()))
    }

    /// Takes some of the lives of a device.
    pub(super) fn of(lives: &[Life], numbers: &[u32]) -> Sizes {
        Sizes::sorted(lives, numbers.iter().copied())
    }

    fn sorted(lives: &[Life], numbers: impl Iterator<Item = u32>) -> Sizes {
        let span = |number: u32| {
            let Life { from, until, .. } = lives[number as usize];
            Span { from, until, life: number }
        };
        let mut spans: Vec<Span> = numbers.map(span).collect();
        spans.sort_unstable_by_key(|span| (Reverse(lives[span.life as usize].represented_bytes), span.life));
        Sizes(spans)
    }

    /// Returns the lives that are in use at some moment from `first` to `last`: all of them, up to `n_all`; if there are more,
    /// those of at least `least_bytes`, and of these the largest `n_most`.
    pub(super) fn shown(
        &self,
        lives: &[Life],
        [first, last]: [Moment; 2],
        least_bytes: u64,
        [n_all, n_most]: [usize; 2],
        is_chosen: impl Fn(u32) -> bool,
    ) -> ShownLives {
        let is_large = |span: &Span| lives[span.life as usize].represented_bytes >= least_bytes;
        let n_large = self.0.partition_point(is_large);
        let is_in = |span: &&Span| span.from <= last && span.until > first && is_chosen(span.life);
        let (large, small) = self.0.split_at(n_large);
        let mut shown: Vec<u32> = large.iter().filter(is_in).take(n_most + 1).map(|span| span.life).collect();
        let mut are_all = shown.len() <= n_most;
        shown.truncate(n_most);
        if shown.len() <= n_all {
            let room = n_all - shown.len();
            let more: Vec<u32> = small.iter().filter(is_in).take(room + 1).map(|span| span.life).collect();
            if more.len() <= room {
                shown.extend(more);
            } else {
                are_all = false;
            }
        } else {
            are_all &= !small.iter().any(|span| is_in(&span));
        }
        ShownLives { lives: shown, are_all }
    }
}
