//! A moment of a history, as a question names it.

use memreel_snapshot::{Action, analysis::DeviceHistory, history::Moment, model::TraceEntry};

use crate::Refusal;

/// A moment of a history.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum At {
    /// Before the first event.
    Start,
    /// When the most bytes were in use.
    #[default]
    Peak,
    /// After the last event.
    End,
    /// When the last request failed.
    Oom,
    /// After the event with this number, counted from 0.
    Entry(usize),
}

impl At {
    /// Returns the moment in a history.
    ///
    /// # Errors
    /// No request failed, or the history does not have the event.
    pub fn moment(self, history: &DeviceHistory<'_>) -> Result<Moment, Refusal> {
        let (device, n_events) = (history.device(), history.entries().len());
        match self {
            At::Start => Ok(Moment::START),
            At::Peak => Ok(history.peak().moment),
            At::End => Ok(history.end()),
            At::Oom => last_oom(history).ok_or(Refusal::NothingFailed { device }),
            At::Entry(event) if event < n_events => Ok(Moment::after(event)),
            At::Entry(event) => Err(Refusal::NoEvent { device, event, n_events }),
        }
    }
}

/// Returns the moment of the last request that failed; `None` if none did.
#[must_use]
pub fn last_oom(history: &DeviceHistory<'_>) -> Option<Moment> {
    let is_oom = |entry: &TraceEntry| entry.action == Some(Action::Oom);
    history.entries().iter().rposition(is_oom).map(Moment::after)
}
