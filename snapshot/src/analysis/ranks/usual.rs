//! What is usual: the median of a figure over the ranks, and how far ranks usually are from it.

/// A figure is far if it differs from the median by more than this part of the whole: one in twenty.
const FAR: u64 = 20;

/// It must also be further from the median than this number of usual distances.
const DISTANCES: u64 = 4;

/// The median of a figure and the median of the distances to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usual {
    pub(super) median: u64,
    distance: u64,
}

impl Usual {
    /// Returns what is usual among figures; `None` if there are none.
    pub(super) fn of(mut figures: Vec<u64>) -> Option<Usual> {
        let median = median(&mut figures)?;
        figures.iter_mut().for_each(|figure| *figure = figure.abs_diff(median));
        Some(Usual { median, distance: median_or_zero(&mut figures) })
    }

    /// Returns whether a figure is far from the median, as a part of a whole.
    pub(super) fn is_far(&self, figure: u64, whole: u64) -> bool {
        let distance = figure.abs_diff(self.median);
        distance > whole / FAR && distance > self.distance.saturating_mul(DISTANCES)
    }
}

fn median_or_zero(figures: &mut [u64]) -> u64 {
    median(figures).unwrap_or(0)
}

fn median(figures: &mut [u64]) -> Option<u64> {
    figures.sort_unstable();
    let half = figures.len() / 2;
    let upper = *figures.get(half)?;
    Some(if figures.len() % 2 == 1 { upper } else { u64::midpoint(figures[half - 1], upper) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_far_from_many_that_are_near() {
        let usual = Usual::of(vec![100, 104, 98, 101, 99]).unwrap();
        assert_eq!((usual.median, usual.distance), (100, 1));
        assert!(!usual.is_far(105, 100), "a twentieth is near");
        assert!(usual.is_far(106, 100) && usual.is_far(94, 100));
        let wide = Usual::of(vec![60, 100, 140, 100]).unwrap();
        assert_eq!((wide.median, wide.distance), (100, 20));
        assert!(!wide.is_far(180, 100) && wide.is_far(181, 100), "ranks that differ anyway");
        assert!(Usual::of(Vec::new()).is_none());
    }
}
