//! A cause of a failed request: what was found, and what to do about it.

use serde::{Serialize, Serializer};

use super::Verdict;

/// What kind of cause it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CauseKind {
    /// The process has a limit, and the device had room.
    Limited,
    /// Sites hold more than before: a leak, a burst, or a step that is larger than the earlier ones.
    Grew,
    /// Memory was free but could not be used, for the reason in the verdict.
    Unusable(Verdict),
    /// Other processes hold a good part of the device.
    Occupied,
    /// The blocks in use and the request are too large together.
    Full,
    /// The request was for addresses, of which the process has reserved too many.
    Addresses,
}

impl CauseKind {
    /// Returns `limited`, `grew`, the name of the verdict, `occupied`, `full` or `addresses`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CauseKind::Limited => Verdict::Limited.name(),
            CauseKind::Grew => "grew",
            CauseKind::Unusable(verdict) => verdict.name(),
            CauseKind::Occupied => Verdict::Occupied.name(),
            CauseKind::Full => Verdict::Full.name(),
            CauseKind::Addresses => Verdict::Addresses.name(),
        }
    }
}

impl Serialize for CauseKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}

/// A cause of a failed request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Cause {
    /// Its kind.
    pub kind: CauseKind,
    /// The bytes that the process would have had without it.
    pub bytes: u64,
    /// What was found, in one sentence with figures.
    pub finding: String,
    /// What to do, in one sentence with the result of a replay; `None` if nothing was tried.
    pub advice: Option<String>,
    /// The advised setting, as a text of `PYTORCH_ALLOC_CONF`.
    pub conf: Option<String>,
}

impl Cause {
    /// Marks its advice as one with which the program would still have failed a little later.
    pub(super) fn only_delays(&mut self) {
        self.conf = None;
        self.advice = self.advice.take().map(|advice| format!("only a stopgap: {advice}"));
    }
}
