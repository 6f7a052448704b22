//! Why the last request that failed ran out of memory.

use memreel::whatif::explain;
use memreel_snapshot::{
    analysis::oom::{Explanation, OomRecord, OomReport},
    log::Message,
};
use serde::{Serialize, Serializer};

use crate::{Question, Refusal, Subject};

/// Why the last request that failed ran out of memory.
#[derive(Clone, Copy, Debug)]
pub struct OomQuestion<'q> {
    /// The most sites that each list has.
    pub n: usize,
    /// What a log has about the failure: the size of the device, and what other processes held.
    pub message: Option<&'q Message>,
}

impl Default for OomQuestion<'_> {
    fn default() -> Self {
        OomQuestion { n: 10, message: None }
    }
}

/// The answer to [`OomQuestion`].
#[derive(Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "one is made for each device")]
pub enum Oom<'s> {
    /// No request of the history failed.
    No(NotFailed),
    /// A request failed.
    Yes(Failed<'s>),
}

/// The answer if no request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct NotFailed {
    /// Null: no request failed.
    pub oom: Option<()>,
}

/// A request that failed. It serialises as its [`OomRecord`], followed by `message` and `warnings`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failed<'s> {
    /// The request, its causes, and what held the memory.
    pub explanation: Explanation<'s, 's>,
    /// The most sites that each list has.
    pub n: usize,
    /// The log's message about the device; null without a log, and if the log does not mention the device.
    pub message: Option<Message>,
    /// What limits the figures, one sentence each; empty if nothing does.
    pub warnings: Vec<String>,
}

impl Failed<'_> {
    /// Returns the explanation as data.
    #[must_use]
    pub fn record(&self) -> OomRecord<'_> {
        self.explanation.record(self.n)
    }
}

/// The pairs of a failed request.
#[derive(Serialize)]
struct Pairs<'p> {
    #[serde(flatten)]
    record: OomRecord<'p>,
    message: Option<&'p Message>,
    warnings: &'p [String],
}

impl Serialize for Failed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (record, message, warnings) = (self.record(), self.message.as_ref(), &*self.warnings);
        Pairs { record, message, warnings }.serialize(serializer)
    }
}

impl Question for OomQuestion<'_> {
    type Answer<'s> = Oom<'s>;

    fn ask<'s>(&self, subject: &'s Subject<'_>) -> Result<Oom<'s>, Refusal> {
        let history = subject.history();
        let Some(report) = history.oom() else { return Ok(Oom::No(NotFailed::default())) };
        Ok(Oom::Yes(Failed {
            explanation: explain(history, self.on_its_device(report)),
            n: self.n,
            message: self.message.cloned(),
            warnings: subject.warnings(),
        }))
    }
}

impl OomQuestion<'_> {
    /// Adds the size of the device, unless the message is about a smaller one than the snapshot.
    fn on_its_device(&self, report: OomReport) -> OomReport {
        let least = report.device_free_bytes.saturating_add(report.totals.reserved_bytes);
        let Some(message) = self.message else { return report };
        match message.capacity_bytes {
            Some(capacity) if capacity.saturating_add(message.rounding_bytes) >= least => {
                report.of_device(capacity)
            }
            _ => report,
        }
    }
}
