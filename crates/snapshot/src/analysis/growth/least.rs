//! Finds the minimum of any stretch of a list without examining the whole stretch.

use std::ops::Range;

/// A list of values with a tree of minima above it.
#[derive(Debug)]
pub(super) struct Least<T> {
    /// The node with the number `n` is the minimum of those with the numbers `2 n` and `2 n + 1`; the values are the
    /// last nodes.
    nodes: Vec<T>,
    n_values: usize,
}

impl<T: Copy + Ord> Least<T> {
    pub(super) fn new(values: &[T]) -> Least<T> {
        let n_values = values.len();
        let mut nodes = [values, values].concat();
        for at in (1..n_values).rev() {
            nodes[at] = nodes[2 * at].min(nodes[2 * at + 1]);
        }
        Least { nodes, n_values }
    }

    /// Returns the minimum of a stretch; `None` if it is empty.
    pub(super) fn of(&self, stretch: Range<usize>) -> Option<T> {
        let mut found: Option<T> = None;
        let mut add = |value: T| found = Some(found.map_or(value, |least| least.min(value)));
        let (mut first, mut last) =
            (stretch.start + self.n_values, stretch.end.min(self.n_values) + self.n_values);
        while first < last {
            if first % 2 == 1 {
                add(self.nodes[first]);
                first += 1;
            }
            if last % 2 == 1 {
                last -= 1;
                add(self.nodes[last]);
            }
            (first, last) = (first / 2, last / 2);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, cmp::Ordering};

    use super::*;

    /// A value that counts how often values are compared.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Counted<'a>(u32, &'a Cell<u32>);

    impl PartialOrd for Counted<'_> {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl Ord for Counted<'_> {
        fn cmp(&self, other: &Self) -> Ordering {
            self.1.set(self.1.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    #[test]
    fn the_least_of_a_stretch_is_found_without_all_of_it() {
        const N: u32 = 3000;
        let n_compared = Cell::new(0);
        let value = |at: u32| at.wrapping_mul(2_654_435_761) >> 7;
        let values: Vec<Counted<'_>> = (0..N).map(|at| Counted(value(at), &n_compared)).collect();
        let least = Least::new(&values);
        for (from, to) in (0..N).map(|at| (at / 3, N - at / 7)) {
            let found = least.of(from as usize..to as usize).map(|found| found.0);
            assert_eq!(found, (from..to).map(value).min(), "{from}..{to}");
        }
        assert!(n_compared.get() < 32 * N, "{}", n_compared.get());
        assert_eq!(least.of(5..5), None);
        assert_eq!(Least::<u32>::new(&[]).of(0..1), None);
    }
}
