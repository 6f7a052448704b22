//! What replays of the history say of a failed request.

use serde::Serialize;

use super::Fit;

/// What replays of the history say of a failed request. Its default is what is known without one: nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Tried {
    /// Whether expandable segments would have served it.
    pub with_expandable: Fit,
    /// The bytes that the process reserves to serve it under its own settings if nothing limits the process.
    pub needed_bytes: Option<u64>,
    /// What would be served without the blocks by which sites grew ([`Growths`](crate::analysis::Growths)).
    pub without_growth: Option<Served>,
    /// The settings that were tried; those that serve it first, the best of them first.
    pub settings: Vec<TriedSetting>,
}

impl Default for Tried {
    fn default() -> Tried {
        Tried {
            with_expandable: Fit::Perhaps,
            needed_bytes: None,
            without_growth: None,
            settings: Vec::new(),
        }
    }
}

impl Tried {
    /// Returns the best of the settings that serve the request.
    #[must_use]
    pub fn best(&self) -> Option<&TriedSetting> {
        self.settings.first().filter(|setting| setting.served.is_served())
    }
}

/// How many requests would be served.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Served {
    /// The number of requests of the size of the failed one, itself included, that are served one after the other if none
    /// is freed; at most [`Served::MOST`].
    pub n_requests: u32,
}

impl Served {
    /// The most requests that are tried.
    pub const MOST: u32 = 1000;

    /// Creates it from the number of requests that were served.
    #[must_use]
    pub fn new(n_requests: u32) -> Served {
        Served { n_requests }
    }

    /// Returns whether the failed request would be served.
    #[must_use]
    pub fn is_served(self) -> bool {
        self.n_requests > 0
    }
}

/// A setting that was tried, with its price.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct TriedSetting {
    /// The setting, as a text of `PYTORCH_ALLOC_CONF`.
    pub conf: String,
    /// What it serves.
    #[serde(flatten)]
    pub served: Served,
    /// The most bytes that were reserved until the request was served or failed.
    pub reserved_peak_bytes: u64,
    /// The number of calls to the device until then.
    pub num_device_calls: u64,
}

impl TriedSetting {
    /// Creates it from the results of a replay.
    #[must_use]
    pub fn new(
        conf: String,
        served: Served,
        reserved_peak_bytes: u64,
        num_device_calls: u64,
    ) -> TriedSetting {
        TriedSetting { conf, served, reserved_peak_bytes, num_device_calls }
    }
}
