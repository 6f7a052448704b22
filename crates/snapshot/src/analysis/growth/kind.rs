//! How a site grew.

use serde::{Serialize, Serializer};

/// How a site grew.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum GrowthKind {
    /// In at least three repeats of a step, a cycle or a request, or in each stretch of a long history, and nothing of it was
    /// given back while memory returned to its floor: a leak.
    Steady,
    /// Late: it held no more than before in all repeats, then it rose and did not fall back. A leak that started late, or a
    /// burst.
    Late,
    /// Its blocks are freed and allocated again, and this time there are more of them: a step that is larger than the
    /// earlier ones.
    LargerStep,
}

impl GrowthKind {
    /// Returns `steady`, `late` or `larger step`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            GrowthKind::Steady => "steady",
            GrowthKind::Late => "late",
            GrowthKind::LargerStep => "larger step",
        }
    }
}

impl Serialize for GrowthKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}
