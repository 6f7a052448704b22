//! The peaks of a run at a size, with their bounds.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{forecast::Forecast, law::Expected, size::Size};
use crate::whatif::{Bounds, FailedRequest, Outcome, Replay, ReplayAnswer, Requests};
use memreel_snapshot::{analysis::Made, history::Confidence, words::Result};

/// A number of bytes, with bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Interval {
    /// The best guess.
    pub bytes: u64,
    /// The lowest value that the laws and the random orders of frees allow.
    pub at_least_bytes: u64,
    /// The highest value that they allow.
    pub at_most_bytes: u64,
}

impl Interval {
    fn of(bytes: u64, others: impl Iterator<Item = u64>) -> Interval {
        let guess = Interval { bytes, at_least_bytes: bytes, at_most_bytes: bytes };
        others.fold(guess, |of, other| Interval {
            at_least_bytes: of.at_least_bytes.min(other),
            at_most_bytes: of.at_most_bytes.max(other),
            ..of
        })
    }

    /// Returns the larger distance of a bound from the guess, as a share of the guess.
    #[must_use]
    pub fn spread(self) -> f64 {
        share((self.bytes - self.at_least_bytes).max(self.at_most_bytes - self.bytes), self.bytes)
    }
}

/// What is requested and not yet free at the peak, for one kind of block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PeakPart {
    /// The kind; `None` where the stacks do not show it.
    pub made: Option<Made>,
    /// Its bytes.
    pub bytes: u64,
    /// The bytes of requests with the same size in every run.
    pub constant_bytes: u64,
}

/// The predicted peaks at one size.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Prediction {
    /// The size.
    pub size: Size,
    /// The peak of the bytes that the program requested and had not freed.
    pub requested_peak_bytes: Interval,
    /// The peak of the bytes in blocks.
    pub allocated_peak_bytes: Interval,
    /// The peak of the bytes that were held from the device.
    pub reserved_peak_bytes: Interval,
    /// What the peak of the requested bytes consists of, largest first.
    pub peak_parts: Vec<PeakPart>,
    /// The request that fails under the limit; `None` if the run fits.
    pub failure: Option<FailedRequest>,
    /// How often the run releases its cache and calls the device again.
    pub num_alloc_retries: u64,
    /// Whether the bounds and the random orders agree with the guess on whether the run fits.
    pub is_unanimous: bool,
    /// The size of the run that the requests are from.
    pub nearest: Size,
    /// The ratio of this size to the nearest run's.
    pub times: f64,
    /// The share of the bytes that only one of the runs requested.
    pub alone_share: f64,
    /// How far the guess can be trusted: by the largest of the spreads of the peaks, the share that only one run has,
    /// and the deviation of the nearest run's replay. Up to a hundredth is sure, up to three hundredths is high, up to
    /// a tenth is fair. A run that is more than eight times the nearest one is at most fair, and so is one that fits
    /// only for some of the bounds.
    pub confidence: Confidence,
}

/// How many orders of the frees in each burst are tried, because what one call releases is freed in another order at
/// another size.
const N_DRAWN: u64 = 3;

impl Forecast<'_> {
    /// Predicts the peaks at a size under a setting.
    pub(super) fn predict(&self, size: Size, conf: &str, limit_bytes: Option<u64>) -> Result<Prediction> {
        let expected = self.at(size);
        let sizes = |bytes: fn(&Expected) -> u64| expected.iter().map(bytes).collect::<Vec<u64>>();
        let replayed = |requests: &Requests| -> Result<ReplayAnswer> {
            let bounds = limit_bytes.map_or(Bounds::Ample, Bounds::Limit);
            Replay::new(requests).conf(conf).bounds(bounds).run()
        };
        let guessed = sizes(|of| of.bytes);
        let guess = self.base.requests.resized(&guessed);
        let answer = replayed(&guess)?;
        let (mut requested, mut outcomes) = (Vec::new(), Vec::new());
        if size != self.base.size {
            outcomes.extend([answer.rising, answer.falling]);
            let bounds = [sizes(|of| of.at_least_bytes), sizes(|of| of.at_most_bytes)];
            for bound in bounds.into_iter().filter(|bound| *bound != guessed) {
                let bound = self.base.requests.resized(&bound);
                requested.push(bound.requested_peak_bytes());
                outcomes.push(replayed(&bound)?.outcome);
            }
            for seed in 0..N_DRAWN {
                outcomes.push(replayed(&guess.with_drawn_frees(seed))?.outcome);
            }
        }
        let interval =
            |peak: fn(&Outcome) -> u64| Interval::of(peak(&answer.outcome), outcomes.iter().map(peak));
        let fails = |outcome: &Outcome| outcome.num_ooms > 0;
        let mut prediction = Prediction {
            size,
            requested_peak_bytes: Interval::of(guess.requested_peak_bytes(), requested.into_iter()),
            allocated_peak_bytes: interval(|outcome| outcome.allocated_peak_bytes),
            reserved_peak_bytes: interval(|outcome| outcome.reserved_peak_bytes),
            peak_parts: self.peak_parts(&guess),
            failure: answer.outcome.first_oom,
            num_alloc_retries: answer.outcome.num_alloc_retries,
            is_unanimous: outcomes.iter().all(|outcome| fails(outcome) == fails(&answer.outcome)),
            nearest: self.base.size,
            times: size.times(self.base.size),
            alone_share: self.alone_share(),
            confidence: answer.confidence,
        };
        prediction.confidence = prediction.rated().max(answer.confidence);
        Ok(prediction)
    }

    /// Returns what the peak of the requested bytes consists of.
    fn peak_parts(&self, guess: &Requests) -> Vec<PeakPart> {
        let mut parts: BTreeMap<Option<Made>, PeakPart> = BTreeMap::new();
        for (request, bytes) in guess.live_at_peak() {
            let made = request.and_then(|at| self.base.asked[at].made);
            let part = parts.entry(made).or_insert(PeakPart { made, bytes: 0, constant_bytes: 0 });
            part.bytes = part.bytes.saturating_add(bytes);
            if request.is_none_or(|at| self.is_constant(at)) {
                part.constant_bytes = part.constant_bytes.saturating_add(bytes);
            }
        }
        let mut parts: Vec<PeakPart> = parts.into_values().collect();
        parts.sort_by_key(|part| Reverse(part.bytes));
        parts
    }

    /// Returns whether a run of a size fits under a limit.
    pub(super) fn fits(&self, size: Size, conf: &str, limit_bytes: u64) -> Result<bool> {
        let sizes: Vec<u64> = self.at(size).iter().map(|of| of.bytes).collect();
        let requests = self.base.requests.resized(&sizes);
        Ok(Replay::new(&requests).conf(conf).limit_bytes(limit_bytes).run()?.outcome.num_ooms == 0)
    }
}

impl Prediction {
    fn rated(&self) -> Confidence {
        const MOST_TIMES: f64 = 8.0;
        let peaks = [self.requested_peak_bytes, self.allocated_peak_bytes, self.reserved_peak_bytes];
        let is_itself = self.size == self.nearest;
        let alone_share = if is_itself { 0.0 } else { self.alone_share };
        let rated = rating(peaks.into_iter().map(Interval::spread).fold(alone_share, f64::max));
        let is_far = self.times > MOST_TIMES || !self.is_unanimous;
        if is_far { rated.max(Confidence::Fair) } else { rated }
    }
}

/// Rates a deviation, as a share.
pub(super) fn rating(deviation: f64) -> Confidence {
    match deviation {
        ..=0.01 => Confidence::Sure,
        ..=0.03 => Confidence::High,
        ..=0.1 => Confidence::Fair,
        _ => Confidence::Low,
    }
}

#[allow(clippy::cast_precision_loss)]
pub(super) fn share(part: u64, whole: u64) -> f64 {
    part as f64 / (whole as f64).max(1.0)
}
