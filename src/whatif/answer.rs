//! The answer to one question: a setting and a limit, in both orders of addresses.

use super::{
    prior::Confidence,
    requests::Requests,
    run::{Conditions, Order, Outcome, run},
};
use crate::{allocator::Settings, error::Result, event::DeviceId};

/// A setting to try.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Question {
    /// The settings text; empty for the defaults.
    pub conf: String,
    /// The most that may be reserved, in bytes. Without one nothing is refused.
    pub limit_bytes: Option<u64>,
}

/// What a setting makes of the requests.
///
/// Best fit breaks ties by address, and where a driver would have put the
/// segments of another setting nobody knows: so there are two runs. Falling
/// addresses are the better guess: a driver mostly hands them out so, and the
/// peaks of a training run recorded on an H100 under four settings come out
/// exactly. Under the recorded setting, without a limit, a third run uses the
/// recorded addresses, if the history is whole and the device never was full.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// The question's setting, as given.
    pub conf: String,
    /// The device.
    pub device: DeviceId,
    /// The best guess: with the recorded addresses where they fit, else with falling ones.
    pub outcome: Outcome,
    /// Whether `outcome` has the recorded addresses.
    pub has_recorded_addresses: bool,
    /// With each segment above those before it.
    pub rising: Outcome,
    /// With each segment below those before it.
    pub falling: Outcome,
    /// How far all this can be trusted.
    pub confidence: Confidence,
}

impl Answer {
    /// The lowest and the highest peak of reserved bytes among the runs.
    #[must_use]
    pub fn spread(&self) -> PeakSpread {
        let peaks = [&self.outcome, &self.rising, &self.falling].map(|outcome| outcome.reserved_peak_bytes);
        PeakSpread {
            lowest_bytes: peaks.into_iter().min().unwrap_or(0),
            highest_bytes: peaks.into_iter().max().unwrap_or(0),
        }
    }
}

/// The peaks of reserved bytes of an [`Answer`]'s runs, which differ in the addresses of segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeakSpread {
    /// The lowest peak.
    pub lowest_bytes: u64,
    /// The highest peak.
    pub highest_bytes: u64,
}

/// Runs the requests under a setting. `progress` is told how many steps were
/// done since it was last told, of [`n_steps`] in all, give or take a run.
///
/// # Errors
/// [`is_invalid_option`](crate::Error::is_invalid_option) for a setting that cannot be read.
///
/// [`n_steps`]: Requests::n_steps
pub fn ask(requests: &Requests, question: &Question, progress: &(dyn Fn(u64) + Sync)) -> Result<Answer> {
    let settings: Settings = question.conf.parse()?;
    let run_in = |order| {
        let (settings, limit_bytes) = (settings.clone(), question.limit_bytes);
        run(requests, &Conditions { settings, limit_bytes, order }, progress)
    };
    let (rising, falling) = (run_in(Order::Rising)?, run_in(Order::Falling)?);
    // The script of addresses does not fit when the trace is not all there was.
    let recorded = can_repeat(requests, question).then(|| run_in(Order::Recorded).ok()).flatten();
    Ok(Answer {
        conf: question.conf.clone(),
        device: requests.device(),
        has_recorded_addresses: recorded.is_some(),
        outcome: recorded.unwrap_or_else(|| falling.clone()),
        rising,
        falling,
        confidence: requests.confidence(),
    })
}

/// Whether a run can have the recorded addresses.
pub(super) fn can_repeat(requests: &Requests, question: &Question) -> bool {
    question.limit_bytes.is_none()
        && requests.never_full
        && requests.confidence() == Confidence::Sure
        && requests.recorded().usable_conf() == question.conf
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
