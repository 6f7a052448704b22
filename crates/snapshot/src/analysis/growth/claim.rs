//! The claim about a site that holds blocks: one of four words, which have the same meaning everywhere
//! (docs/guides/growth.md).

use std::fmt;

use serde::{Serialize, Serializer};

/// The claim about a site that holds blocks at the end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Claim {
    /// It grew in each of at least three repeats of a step, a cycle or a request, or over the whole of a long history, and
    /// gives nothing back while memory returns to its floor.
    Leak,
    /// It holds more than in any earlier step.
    Grew,
    /// It may be a leak, with the reason for doubt.
    MayBeALeak(Doubt),
    /// It is held for a reason, or for none that the history shows.
    Held,
}

/// Why it is not certain that a site leaks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Doubt {
    /// It grew only in a few of the last repeats.
    FewRepeats(usize),
    /// No step or request is repeated in the history.
    NothingRepeated,
    /// The heap is sampled, and the site has this number of samples.
    FewSamples(usize),
}

impl Claim {
    /// Returns `leak`, `grew`, `may be a leak` or `held`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Claim::Leak => "leak",
            Claim::Grew => "grew",
            Claim::MayBeALeak(_) => "may be a leak",
            Claim::Held => "held",
        }
    }

    /// Returns the reason for the doubt.
    #[must_use]
    pub fn doubt(self) -> Option<Doubt> {
        if let Claim::MayBeALeak(doubt) = self { Some(doubt) } else { None }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::FewRepeats(n) => write!(f, "it only grew in the last {n} steps"),
            Doubt::NothingRepeated => f.write_str("no step or request repeats in the history"),
            Doubt::FewSamples(n) => write!(
                f,
                "the heap is sampled, and {n} samples are few; compare three snapshots: memreel leaks \
                 FIRST SECOND THIRD"
            ),
        }
    }
}

impl Serialize for Claim {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Serialize for Doubt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
