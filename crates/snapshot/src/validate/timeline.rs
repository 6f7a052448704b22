//! The cost of the viewer's timeline: rule 36.
//!
//! Each free moves every element that is drawn above it, which costs two points for each of them
//! (`docs/snapshot-format.md` 3.6). The viewer draws the 15 000 largest elements unless its slider is
//! moved, so only those are counted.

use super::forward::WalkedTrace;
use crate::words::{Report, Rule};

/// The number of elements that the viewer draws when the page opens.
const DRAWN: usize = 15_000;

/// A browser needs seconds for more points than this.
const MANY_POINTS: u64 = 20_000_000;

pub(super) fn check(trace: &WalkedTrace<'_>, report: &mut Report) {
    let points = points(trace);
    if points > MANY_POINTS {
        let what = "which takes browsers seconds (most of all if blocks are freed in the order of their allocation); \
                    trim the trace, or draw fewer elements";
        let millions = points / 1_000_000;
        let what = format_args!("the viewer's timeline needs {millions} million points, {what}");
        report.warning(Rule::TimelineCost, trace.place, what);
    }
}

/// Returns the number of points of the polygons: two for each element above each free.
fn points(trace: &WalkedTrace<'_>) -> u64 {
    let ranks = ranks(trace);
    let mut alive = Counts(vec![0; ranks.iter().flatten().count() + 1]);
    for (life, rank) in trace.lives.iter().zip(&ranks) {
        if let (None, Some(rank)) = (life.born, rank) {
            alive.add(*rank, 1);
        }
    }
    let rank = |life: Option<u32>| ranks.get(life? as usize).copied().flatten();
    let mut points = 0u64;
    for change in &trace.changes {
        if let Some(rank) = rank(change.died) {
            alive.add(rank, -1);
            points = points.saturating_add(2 * alive.above(rank));
        }
        if let Some(rank) = rank(change.born) {
            alive.add(rank, 1);
        }
    }
    points
}

/// Returns for each life its place from below, if it is drawn: first the lives from before the trace,
/// then the others in the order of their allocs.
fn ranks(trace: &WalkedTrace<'_>) -> Vec<Option<usize>> {
    let lives = &trace.lives;
    let mut drawn: Vec<usize> = (0..lives.len()).collect();
    if drawn.len() > DRAWN {
        drawn.select_nth_unstable_by_key(DRAWN, |life| (std::cmp::Reverse(lives[*life].size), *life));
        drawn.truncate(DRAWN);
    }
    drawn.sort_unstable_by_key(|life| (lives[*life].born, *life));
    let mut ranks = vec![None; lives.len()];
    for (rank, life) in drawn.into_iter().enumerate() {
        ranks[life] = Some(rank);
    }
    ranks
}

/// Counts of elements alive, by place: a binary indexed tree, because the sum over a list would make
/// the estimate as slow as the picture.
struct Counts(Vec<i64>);

impl Counts {
    fn add(&mut self, rank: usize, n: i64) {
        let mut node = rank + 1;
        while let Some(count) = self.0.get_mut(node) {
            *count += n;
            node += node & node.wrapping_neg();
        }
    }

    fn up_to(&self, rank: usize) -> i64 {
        let (mut node, mut sum) = (rank + 1, 0);
        while node > 0 {
            sum += self.0[node];
            node &= node - 1;
        }
        sum
    }

    fn above(&self, rank: usize) -> u64 {
        let all = self.up_to(self.0.len() - 2);
        u64::try_from(all - self.up_to(rank)).unwrap_or(0)
    }
}
