//! Compares answers with the truth, and counts the comparisons.

use std::fmt::Debug;

/// The comparisons of one history.
#[derive(Debug)]
pub(crate) struct Compared {
    /// What a failure names: the seed and the options.
    pub(crate) history: String,
    /// How many answers were compared.
    pub(crate) n: usize,
}

impl Compared {
    pub(crate) fn new(history: String) -> Compared {
        Compared { history, n: 0 }
    }

    /// Compares an answer with the truth.
    #[track_caller]
    pub(crate) fn equal<T: PartialEq<U> + Debug, U: Debug>(&mut self, what: &str, found: &T, truth: &U) {
        self.n += 1;
        assert!(found == truth, "{what} of {}:\n found {found:?}\n truth {truth:?}", self.history);
    }
}
