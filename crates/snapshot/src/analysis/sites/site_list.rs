//! Results about sites, of which the first are listed.

use std::borrow::Cow;

use serde::{Serialize, Serializer};

use super::with_frames::{AtSite, WithFrames};
use crate::analysis::ShownFrames;

/// Results about sites, of which the first few are listed. It serialises as an array of the listed results, each with all
/// frames of its stack ([`WithFrames`]).
///
/// The frames of a result are looked up when it is serialised: all of them at once would take many times the memory of
/// the snapshot's file.
#[derive(Clone, Debug)]
pub struct SiteList<'a, T: Clone> {
    all: Cow<'a, [T]>,
    n_listed: usize,
    shown: ShownFrames<'a>,
}

impl<'a, T: Clone> SiteList<'a, T> {
    /// Lists the first `n` results; `shown` belongs to the snapshot of their sites.
    #[must_use]
    pub fn new(all: impl Into<Cow<'a, [T]>>, n: usize, shown: ShownFrames<'a>) -> SiteList<'a, T> {
        let all = all.into();
        SiteList { n_listed: n.min(all.len()), all, shown }
    }

    /// Returns all results.
    #[must_use]
    pub fn all(&self) -> &[T] {
        &self.all
    }

    /// Returns the results that are listed.
    #[must_use]
    pub fn listed(&self) -> &[T] {
        &self.all[..self.n_listed]
    }

    /// Returns the results that are not listed.
    #[must_use]
    pub fn others(&self) -> &[T] {
        &self.all[self.n_listed..]
    }

    /// Returns the number of results that are not listed, and the sum of their bytes.
    #[must_use]
    pub fn rest(&self, bytes: impl Fn(&T) -> u64) -> Rest {
        Rest::of(self.others(), bytes)
    }
}

impl<T: AtSite + Clone + Serialize> Serialize for SiteList<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.listed().iter().map(|result| WithFrames::new(result, &self.shown)))
    }
}

/// The results that a list leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Rest {
    /// The number of results.
    pub count: usize,
    /// The sum of their bytes.
    pub bytes: u64,
}

impl Rest {
    /// Returns the number of results, and the sum of their bytes.
    #[must_use]
    pub fn of<T>(others: &[T], bytes: impl Fn(&T) -> u64) -> Rest {
        Rest { count: others.len(), bytes: others.iter().map(bytes).fold(0, u64::saturating_add) }
    }
}
