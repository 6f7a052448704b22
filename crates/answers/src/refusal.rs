//! Why a question has no answer.

use std::{error::Error, fmt};

use memreel_snapshot::{
    DeviceId,
    history::{Moment, ScopeError},
};

/// Why a question has no answer about a device.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// The moment of the last failed request was asked for, and no request failed.
    NothingFailed {
        /// The device.
        device: DeviceId,
    },
    /// The history does not have the event.
    NoEvent {
        /// The device.
        device: DeviceId,
        /// The event that was asked for.
        event: usize,
        /// The number of events of the history.
        n_events: usize,
    },
    /// New blocks were to be grouped by owner, and only segments have owners.
    NewBlocksHaveNoOwners,
    /// Both scopes are the same.
    SameScope {
        /// The scope.
        scope: String,
    },
    /// A name is not that of one scope with an end.
    Scope {
        /// The device.
        device: DeviceId,
        /// Why.
        error: ScopeError,
    },
    /// The second scope ends before the first one.
    Backwards {
        /// The device.
        device: DeviceId,
        /// The moments at which the scopes end.
        ends: [Moment; 2],
    },
}

impl Refusal {
    /// Returns the name of the question's field that has no answer: `at`, `by` or `scopes`.
    #[must_use]
    pub fn field(&self) -> &'static str {
        match self {
            Refusal::NothingFailed { .. } | Refusal::NoEvent { .. } => "at",
            Refusal::NewBlocksHaveNoOwners => "by",
            Refusal::SameScope { .. } | Refusal::Scope { .. } | Refusal::Backwards { .. } => "scopes",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NothingFailed { device } => {
                write!(f, "no request failed on device {device}; use peak or end")
            }
            Refusal::NoEvent { device, event, n_events: 0 } => {
                write!(f, "no event {event} on device {device}: there is no history")
            }
            Refusal::NoEvent { device, event, n_events } => {
                write!(f, "no event {event} on device {device}: the last is {}", n_events - 1)
            }
            Refusal::NewBlocksHaveNoOwners => {
                f.write_str("new blocks have no owners; group them by another property")
            }
            Refusal::SameScope { scope } => write!(f, "both scopes are {scope}"),
            Refusal::Scope { device, error } => write!(f, "device {device}: {error}"),
            Refusal::Backwards { device, .. } => {
                write!(f, "device {device}: the second scope ends before the first one")
            }
        }
    }
}

impl Error for Refusal {}
