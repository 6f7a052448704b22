//! The answer of a replay: the results under one setting, in both orders of addresses.

use serde::Serialize;

use super::run::Outcome;
use crate::{event::DeviceId, history::Confidence};

/// The results of the requests of one device under one setting.
///
/// Best fit breaks ties by address, and the addresses that a driver would have given to the segments of
/// another setting are not known. So there are two runs. Falling addresses are the better guess: drivers
/// mostly provide them, and they reproduce the peaks of a training run that was recorded on an H100 under
/// four settings. Under the recorded setting and without a limit, a third run uses the recorded addresses,
/// if the history is whole and the device was never full.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Answer {
    /// The text of the setting.
    pub conf: String,
    /// The device.
    pub device: DeviceId,
    /// The best guess: the run with the recorded addresses if they fit, otherwise the one with falling
    /// addresses.
    pub outcome: Outcome,
    /// Whether `outcome` is of the recorded addresses.
    pub has_recorded_addresses: bool,
    /// The run in which each segment is above those before it.
    pub rising: Outcome,
    /// The run in which each segment is below those before it.
    pub falling: Outcome,
    /// How far the answer can be trusted.
    pub confidence: Confidence,
}

/// The lowest and the highest peak of reserved bytes among the runs of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct PeakSpread {
    /// The lowest peak, in bytes.
    pub lowest_bytes: u64,
    /// The highest peak, in bytes.
    pub highest_bytes: u64,
}

/// How good an answer is. The lower of two ranks is better; fields compare in their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[non_exhaustive]
pub struct Rank {
    /// The number of requests that failed.
    pub num_ooms: u64,
    /// The peak of reserved bytes in the best guess.
    pub reserved_peak_bytes: u64,
    /// The highest peak of reserved bytes among the runs.
    pub worst_peak_bytes: u64,
    /// The number of calls to the device.
    pub num_device_calls: u64,
}

impl Answer {
    /// Returns the lowest and the highest peak of reserved bytes among the runs.
    #[must_use]
    pub fn spread(&self) -> PeakSpread {
        let peaks = [&self.outcome, &self.rising, &self.falling].map(|outcome| outcome.reserved_peak_bytes);
        let (lowest_bytes, highest_bytes) =
            peaks.into_iter().fold((u64::MAX, 0), |(least, most), peak| (least.min(peak), most.max(peak)));
        PeakSpread { lowest_bytes, highest_bytes }
    }

    /// Returns the rank by which answers compare; the lower is better.
    #[must_use]
    pub fn rank(&self) -> Rank {
        let outcome = &self.outcome;
        Rank {
            num_ooms: outcome.num_ooms,
            reserved_peak_bytes: outcome.reserved_peak_bytes,
            worst_peak_bytes: self.spread().highest_bytes,
            num_device_calls: outcome.num_device_calls(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_of_all_runs() {
        let with = |reserved_peak_bytes| Outcome { reserved_peak_bytes, ..Outcome::default() };
        let answer = Answer {
            conf: String::new(),
            device: DeviceId(0),
            outcome: with(5),
            has_recorded_addresses: true,
            rising: with(7),
            falling: with(6),
            confidence: Confidence::Sure,
        };
        assert_eq!(answer.spread(), PeakSpread { lowest_bytes: 5, highest_bytes: 7 });
    }
}
