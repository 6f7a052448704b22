//! Finds the blocks that are in use in a window without examining all blocks.

#![forbid(unsafe_code)]

use memreel_snapshot::history::{Life, Moment};

/// The lives of a device in the order in which they begin, with marks of what is in use now and then.
pub(super) struct InUse {
    /// The moments from which lives are in use, with the numbers of the lives.
    begun: Vec<(Moment, u32)>,
    marks: Vec<Mark>,
}

/// What is in use at a moment.
struct Mark {
    moment: Moment,
    /// The number of lives that have begun until then.
    n_begun: usize,
    live: Vec<u32>,
}

/// The fewest lives that begin between two marks. No mark has more lives than begin until the next one, so all but the last
/// have no more than there are.
const LEAST: usize = 256;

impl InUse {
    pub(super) fn new(lives: &[Life]) -> InUse {
        let mut begun: Vec<(Moment, u32)> = lives.iter().map(|life| life.from).zip(0..).collect();
        begun.sort_unstable();
        let (mut marks, mut live): (Vec<Mark>, Vec<u32>) = (Vec::new(), Vec::new());
        let (mut n_marked, mut before) = (0, Moment::START);
        for (n_begun, (moment, number)) in begun.iter().enumerate() {
            let room = marks.last().map_or(0, |mark| mark.live.len()).max(LEAST);
            if n_begun - n_marked >= room && before != *moment {
                live.retain(|number| lives[*number as usize].until > before);
                marks.push(Mark { moment: before, n_begun, live: live.clone() });
                n_marked = n_begun;
            }
            live.push(*number);
            before = *moment;
        }
        InUse { begun, marks }
    }

    /// Returns the numbers of the lives that are in use at some moment from `first` to `last`, rising; `None` if to find them
    /// is no less work than to look at all.
    pub(super) fn within(&self, lives: &[Life], [first, last]: [Moment; 2]) -> Option<Vec<u32>> {
        let (live, begun) = self.near([first, last]);
        if (live.len() + begun.len()) * 4 > lives.len() {
            return None;
        }
        let all = live.iter().chain(begun.iter().map(|(_, number)| number)).copied();
        let mut found: Vec<u32> = all.filter(|number| lives[*number as usize].until > first).collect();
        found.sort_unstable();
        Some(found)
    }

    /// Returns what is in use at the mark before a window, and what begins from there until its end.
    fn near(&self, [first, last]: [Moment; 2]) -> (&[u32], &[(Moment, u32)]) {
        let n_marks = self.marks.partition_point(|mark| mark.moment <= first);
        let mark = n_marks.checked_sub(1).map(|at| &self.marks[at]);
        let (live, n_before) = mark.map_or((&[][..], 0), |mark| (&mark.live[..], mark.n_begun));
        let n_until = self.begun.partition_point(|(moment, _)| *moment <= last);
        (live, &self.begun[n_before..n_until.max(n_before)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::view::samples::{Random, snapshot, with_device};

    #[test]
    fn a_window_is_found_without_all_lives() {
        let snapshot = snapshot(29, 20_000);
        with_device(&snapshot, |device| {
            let (lives, end) = (device.history.lives(), device.history.end().0);
            let in_use = InUse::new(lives);
            let (last, others) = in_use.marks.split_last().unwrap();
            assert!(others.iter().map(|mark| mark.live.len()).sum::<usize>() <= last.n_begun);
            let mut random = Random::new(5);
            for width in [0, 1, 30, 1000, end] {
                for _ in 0..20 {
                    let first = u32::try_from(random.index(end as usize)).unwrap();
                    let window = [first, first.saturating_add(width).min(end)].map(Moment);
                    let is_in = |life: &Life| life.from <= window[1] && life.until > window[0];
                    let expected: Vec<u32> =
                        (0..).zip(lives).filter(|(_, life)| is_in(life)).map(|(at, _)| at).collect();
                    let found = in_use.within(lives, window);
                    assert!(found.is_none_or(|found| found == expected), "{window:?}");
                    let (live, begun) = in_use.near(window);
                    let n_before = begun.iter().filter(|(moment, _)| *moment <= window[0]).count();
                    assert!(
                        n_before <= live.len().max(LEAST) + 1,
                        "{n_before} begin after a mark of {}",
                        live.len()
                    );
                }
            }
        });
    }
}
