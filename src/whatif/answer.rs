//! The answer of a replay: the results under one setting, in both orders of addresses.

use serde::Serialize;

use super::{recorded_run::options, run::Outcome};
use memreel_snapshot::{history::Confidence, words::DeviceId};

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
///
/// A rank has no figure of a run with the recorded addresses, which only the recorded setting can have: all
/// settings compare by the same two orders of addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[non_exhaustive]
pub struct Rank {
    /// The number of requests that failed.
    pub num_ooms: u64,
    /// The higher of the peaks of reserved bytes with rising and with falling addresses.
    pub worst_peak_bytes: u64,
    /// The peak of reserved bytes with falling addresses.
    pub reserved_peak_bytes: u64,
    /// The number of options of the setting.
    pub num_options: usize,
    /// The number of calls to the device with falling addresses.
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
        let Answer { rising, falling, .. } = self;
        Rank {
            num_ooms: self.outcome.num_ooms,
            worst_peak_bytes: rising.reserved_peak_bytes.max(falling.reserved_peak_bytes),
            reserved_peak_bytes: falling.reserved_peak_bytes,
            num_options: options(&self.conf).len(),
            num_device_calls: falling.num_device_calls(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer with the peaks of the best guess and with rising and falling addresses.
    fn answer(conf: &str, [outcome, rising, falling]: [u64; 3]) -> Answer {
        let with = |reserved_peak_bytes| Outcome { reserved_peak_bytes, ..Outcome::default() };
        Answer {
            conf: conf.to_owned(),
            device: DeviceId(0),
            outcome: with(outcome),
            has_recorded_addresses: outcome != falling,
            rising: with(rising),
            falling: with(falling),
            confidence: Confidence::Sure,
        }
    }

    #[test]
    fn the_spread_is_of_all_runs() {
        let spread = answer("", [5, 7, 6]).spread();
        assert_eq!(spread, PeakSpread { lowest_bytes: 5, highest_bytes: 7 });
    }

    #[test]
    fn a_rank_leaves_out_the_recorded_addresses_and_prefers_few_options() {
        let rank = |conf, peaks| answer(conf, peaks).rank();
        for recorded in [5, 6, 9] {
            assert_eq!(rank("", [recorded, 7, 6]), rank("", [6, 7, 6]), "{recorded}");
        }
        assert!(rank("", [6, 6, 6]) < rank("", [5, 7, 5]), "the worst case decides");
        assert!(rank("", [5, 7, 5]) < rank("", [6, 7, 6]), "then the better guess");
        let one = "roundup_power2_divisions:[256:1,512:2,>:8]";
        let two = format!("expandable_segments:True,{one}");
        assert!(rank(one, [5, 5, 5]) < rank(&two, [5, 5, 5]), "then the number of options");
        assert_eq!([rank("", [5; 3]), rank(&two, [5; 3])].map(|rank| rank.num_options), [0, 2]);
    }
}
