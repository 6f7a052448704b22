//! The results of replays of the history for a failed request.

use serde::Serialize;

use super::Fit;
use crate::analysis::torch::n_options;

/// The results of replays of the history for a failed request. The default is what is known without one: nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Tried {
    /// Whether it would have succeeded with expandable segments.
    pub with_expandable: Fit,
    /// The bytes that the process reserves for it under its own settings if nothing limits the process.
    pub needed_bytes: Option<u64>,
    /// Whether the replay of the recorded setting repeats the recorded run, so that the results are certain.
    pub is_certain: bool,
    /// What would succeed without the blocks by which sites grew ([`Growths`](crate::analysis::Growths)).
    pub without_growth: Option<Served>,
    /// The noteworthy settings from a sweep over the whole history, best first.
    pub settings: Vec<TriedSetting>,
}

impl Default for Tried {
    fn default() -> Tried {
        Tried {
            with_expandable: Fit::Perhaps,
            needed_bytes: None,
            is_certain: false,
            without_growth: None,
            settings: Vec::new(),
        }
    }
}

impl Tried {
    /// Returns the setting to advise, among those that satisfy the request and are better than the recorded one: the
    /// one under which the fewest other requests fail, and of these the smallest change.
    #[must_use]
    pub fn best(&self) -> Option<&TriedSetting> {
        let better = self.settings.iter().take_while(|setting| !setting.is_recorded);
        better.filter(|setting| setting.served.is_served()).min_by_key(|setting| {
            (setting.num_after - setting.num_served_after, setting.num_ooms, n_options(&setting.conf))
        })
    }
}

/// Returns the number of requests that succeed, in words.
pub(super) fn requests(served: Served) -> String {
    match served.n_requests {
        1 => "this request, but not a second one of the same size".to_owned(),
        2 => "this request and 1 more of the same size".to_owned(),
        Served::MOST.. => format!("this request and {} or more of the same size", Served::MOST - 1),
        n => format!("this request and {} more of the same size", n - 1),
    }
}

/// How many requests would succeed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Served {
    /// The number of requests of the failed one's size, including itself, that succeed in a row if none is freed; at
    /// most [`Served::MOST`].
    pub n_requests: u32,
}

impl Served {
    /// The most requests that are tried.
    pub const MOST: u32 = 1000;

    /// Creates it from the number of requests that succeeded.
    #[must_use]
    pub fn new(n_requests: u32) -> Served {
        Served { n_requests }
    }

    /// Returns whether the failed request would succeed.
    #[must_use]
    pub fn is_served(self) -> bool {
        self.n_requests > 0
    }
}

/// A setting that was tried, with its costs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct TriedSetting {
    /// The setting, as a text of `PYTORCH_ALLOC_CONF`.
    pub conf: String,
    /// Whether it is the recorded one.
    pub is_recorded: bool,
    /// What succeeds with it.
    #[serde(flatten)]
    pub served: Served,
    /// The number of recorded requests after the failed one.
    pub num_after: u64,
    /// How many of these succeed.
    pub num_served_after: u64,
    /// The number of requests that fail, of all of the history.
    pub num_ooms: u64,
    /// The most bytes that are reserved.
    pub reserved_peak_bytes: u64,
    /// The number of calls to the device.
    pub num_device_calls: u64,
}

impl TriedSetting {
    /// Returns whether the history continues after the failed request, and all of that succeeds.
    pub(super) fn serves_the_rest(&self) -> bool {
        self.num_after > 0 && self.num_served_after == self.num_after
    }

    /// Creates it without other results yet.
    #[must_use]
    pub fn new(conf: String, served: Served) -> TriedSetting {
        TriedSetting {
            conf,
            is_recorded: false,
            served,
            num_after: 0,
            num_served_after: 0,
            num_ooms: 0,
            reserved_peak_bytes: 0,
            num_device_calls: 0,
        }
    }
}
