//! What is usual: the median of a figure over the ranks, and how far ranks usually are from it.

/// A figure is far if it differs from the median by more than this fraction of the whole: one in twenty.
const FAR: u64 = 20;

/// It must also be further from the median than this many usual distances.
const DISTANCES: u64 = 4;

/// The median of a figure and the median of the distances to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usual {
    pub(super) median: u64,
    distance: u64,
}

impl Usual {
    /// Returns what is usual among figures; `None` if there are none.
    pub(super) fn of(figures: Vec<u64>) -> Option<Usual> {
        Usual::of_all(figures, 0)
    }

    /// Returns what is usual among figures and this number of zeros.
    pub(super) fn of_all(mut figures: Vec<u64>, n_zeros: usize) -> Option<Usual> {
        let median = median(&mut figures, (0, n_zeros))?;
        figures.iter_mut().for_each(|figure| *figure = figure.abs_diff(median));
        let distance = self::median(&mut figures, (median, n_zeros))?;
        Some(Usual { median, distance })
    }

    /// Returns whether a figure is far from the median, relative to a whole.
    pub(super) fn is_far(&self, figure: u64, whole: u64) -> bool {
        let distance = figure.abs_diff(self.median);
        distance > whole / FAR && distance > self.distance.saturating_mul(DISTANCES)
    }
}

/// Returns the median of figures and of further equal ones, given by their value and number.
fn median(figures: &mut [u64], (value, n_equal): (u64, usize)) -> Option<u64> {
    figures.sort_unstable();
    let n_before = figures.partition_point(|figure| *figure < value);
    let nth = |at: usize| match at.checked_sub(n_before) {
        None => figures.get(at).copied(),
        Some(since) if since < n_equal => Some(value),
        Some(_) => figures.get(at - n_equal).copied(),
    };
    let n = figures.len() + n_equal;
    let upper = nth(n / 2)?;
    Some(if n % 2 == 1 { upper } else { u64::midpoint(nth(n / 2 - 1)?, upper) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_counted_and_not_kept() {
        for n in 0..7_u64 {
            for n_zeros in 0..8 {
                let figures: Vec<u64> = (0..n).map(|at| at * 5 % 4 * 10).collect();
                let all = [&figures[..], &vec![0; n_zeros][..]].concat();
                let of = |usual: Option<Usual>| usual.map(|usual| (usual.median, usual.distance));
                assert_eq!(of(Usual::of_all(figures, n_zeros)), of(Usual::of(all)), "{n} and {n_zeros}");
            }
        }
    }

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
