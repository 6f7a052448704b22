//! The answer of a replay: the results under one setting, in both orders of addresses.

use serde::Serialize;

use super::{
    baseline::Baseline,
    run::{Outcome, Switch},
};
use memreel_snapshot::{analysis::options, history::Confidence, words::DeviceId};

/// The results of the requests of one device under one setting.
///
/// Best fit breaks ties by address, but the addresses that a driver would have given to other segments are not known.
/// So there are two runs. Falling addresses are the better guess: drivers mostly provide them, and they reproduce the
/// peaks of a training run that was recorded on an H100 under four settings. Under the recorded setting, a third run
/// uses the recorded addresses, if the [`Baseline`] is exact and the process can hold as much as the recorded one
/// could.
///
/// Each run starts with the state that the recorded run had at the first entry. The effect of another setting on the
/// time before that is not known, so every replay acts as if it had been changed at that moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct ReplayAnswer {
    /// The text of the settings.
    pub conf: String,
    /// The settings that replace it, and the entry from which on they do.
    pub switch: Option<Switch>,
    /// The device.
    pub device: DeviceId,
    /// The best guess: the run with the recorded addresses if they fit, otherwise the one with falling
    /// addresses.
    pub outcome: Outcome,
    /// Whether `outcome` is the run with the recorded addresses.
    pub has_recorded_addresses: bool,
    /// The run in which each segment is above those before it.
    pub rising: Outcome,
    /// The run in which each segment is below those before it.
    pub falling: Outcome,
    /// How the replay of the recorded setting compares with the recorded run.
    pub baseline: Baseline,
    /// How far the answer can be trusted, according to the baseline.
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

impl ReplayAnswer {
    /// Returns the lowest and the highest peak of reserved bytes among the runs.
    #[must_use]
    pub fn spread(&self) -> PeakSpread {
        let peaks = [&self.outcome, &self.rising, &self.falling].map(|outcome| outcome.reserved_peak_bytes);
        let (lowest_bytes, highest_bytes) =
            peaks.into_iter().fold((u64::MAX, 0), |(least, most), peak| (least.min(peak), most.max(peak)));
        PeakSpread { lowest_bytes, highest_bytes }
    }

    /// Returns the number of requests that fail in the worse of the two orders of addresses.
    #[must_use]
    pub fn worst_num_ooms(&self) -> u64 {
        self.rising.num_ooms.max(self.falling.num_ooms)
    }

    /// Returns the higher of the peaks of reserved bytes with rising and with falling addresses.
    ///
    /// The recorded addresses, which only the recorded setting can have, do not count, so that all settings are
    /// compared by the same two orders of addresses.
    #[must_use]
    pub fn worst_peak_bytes(&self) -> u64 {
        self.rising.reserved_peak_bytes.max(self.falling.reserved_peak_bytes)
    }

    /// Returns the number of options of the setting.
    #[must_use]
    pub fn num_options(&self) -> usize {
        options(&self.conf).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_of_all_runs() {
        let with = |reserved_peak_bytes| Outcome { reserved_peak_bytes, ..Outcome::default() };
        let answer = ReplayAnswer {
            conf: "roundup_power2_divisions:[256:1,512:2,>:8],expandable_segments:True".to_owned(),
            switch: None,
            device: DeviceId(0),
            outcome: with(5),
            has_recorded_addresses: true,
            rising: with(7),
            falling: with(6),
            baseline: Baseline::default(),
            confidence: Confidence::Sure,
        };
        assert_eq!(answer.spread(), PeakSpread { lowest_bytes: 5, highest_bytes: 7 });
        assert_eq!((answer.worst_peak_bytes(), answer.num_options()), (7, 2));
    }
}
