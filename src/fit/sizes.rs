//! Compares runs of several sizes, and predicts others from them.

use std::num::NonZeroU64;

use super::{
    forecast::{Forecast, distance},
    prediction::{Prediction, rating, share},
    size::Size,
    sized_run::SizedRun,
};
use memreel_snapshot::{
    history::Confidence,
    words::{Error, Result},
};

/// Runs of one program at several sizes.
#[derive(Debug)]
pub struct Sizes<'a> {
    forecasts: Vec<Forecast<'a>>,
    conf: String,
    checks: Vec<Check>,
}

/// A recorded run, and what the others predict for it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Check {
    /// The prediction from the other runs.
    pub predicted: Prediction,
    /// The recorded peaks.
    pub recorded: Prediction,
}

/// The largest size that fits under a limit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Largest {
    /// The peaks at that size; `None` if the smallest does not fit.
    pub fits: Option<Prediction>,
    /// The next size, at which a request fails; `None` if every size fits.
    pub fails: Option<Prediction>,
}

impl<'a> Sizes<'a> {
    /// Aligns runs that were recorded under one setting. With three or more sizes, each is also predicted from the
    /// others as a check.
    ///
    /// # Errors
    /// [`is_misuse`](crate::Error::is_misuse) if there are fewer than two sizes, if two runs have the same size, if a
    /// request failed in every run, or if two runs have less than half of their bytes in common.
    pub fn new(runs: &[&'a SizedRun]) -> Result<Sizes<'a>> {
        let mut sizes = Sizes::aligned(runs)?;
        if sizes.forecasts.len() > 2 {
            for recorded in sizes.recorded()? {
                let others: Vec<&SizedRun> =
                    runs.iter().copied().filter(|run| run.size != recorded.size).collect();
                let predicted = Sizes::aligned(&others)?.at(recorded.size)?;
                sizes.checks.push(Check { predicted, recorded });
            }
        }
        Ok(sizes)
    }

    fn aligned(runs: &[&'a SizedRun]) -> Result<Sizes<'a>> {
        const LEAST_IN_COMMON: f64 = 0.5;
        let is_twice = |(at, run): (usize, &&SizedRun)| runs[..at].iter().any(|other| other.size == run.size);
        if runs.len() < 2 || runs.iter().enumerate().any(is_twice) {
            return Err(Error::misuse("a prediction needs runs of two sizes or more, one run per size"));
        }
        if let Some([less, more]) = contradiction(runs) {
            let what = format!(
                "the run of size {more} needs less memory than that of {less}: are the files in the order of their sizes?"
            );
            return Err(Error::misuse(what));
        }
        let whole = runs.iter().filter(|run| !run.failed());
        let forecasts: Vec<Forecast<'_>> = whole.map(|base| Forecast::new(base, runs)).collect();
        let Some(first) = forecasts.first() else {
            return Err(Error::misuse("a request failed in every run; record two sizes that fit"));
        };
        if forecasts.iter().any(|forecast| forecast.alone_share() > LEAST_IN_COMMON) {
            let what = "the runs have less than half of their requests in common: they are not from the same program";
            return Err(Error::misuse(what));
        }
        let conf = first.base.requests.recorded().usable_conf().to_owned();
        Ok(Sizes { forecasts, conf, checks: Vec::new() })
    }

    /// Sets the allocator settings, as a text of `PYTORCH_ALLOC_CONF`. Default: that of the first run.
    #[must_use]
    pub fn with_conf(mut self, conf: impl Into<String>) -> Self {
        self.conf = conf.into();
        self
    }

    /// Returns the allocator settings.
    #[must_use]
    pub fn conf(&self) -> &str {
        &self.conf
    }

    /// Returns the peaks of each recorded run without a failed request, according to its replay.
    ///
    /// # Errors
    /// The errors of [`at`](Sizes::at).
    pub fn recorded(&self) -> Result<Vec<Prediction>> {
        self.forecasts.iter().map(|of| of.predict(of.base.size, &self.conf, None)).collect()
    }

    /// Returns each run with its prediction from the others; empty if there are only two.
    #[must_use]
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// Predicts the peaks at a size.
    ///
    /// # Errors
    /// [`is_invalid_option`](crate::Error::is_invalid_option) for settings that cannot be read.
    pub fn at(&self, size: Size) -> Result<Prediction> {
        self.predict(size, None)
    }

    /// Finds the largest size that fits under a limit, among the multiples of `step`. `with` turns a number into a
    /// size.
    ///
    /// # Errors
    /// The errors of [`at`](Sizes::at).
    pub fn largest(
        &self,
        limit_bytes: u64,
        step: NonZeroU64,
        with: impl Fn(NonZeroU64) -> Result<Size>,
    ) -> Result<Largest> {
        // Beyond this, nothing depends on the size.
        const MOST: u64 = 1 << 40;
        let most_steps = MOST / step;
        if most_steps == 0 {
            return Err(Error::misuse(format!("a step of {step} is larger than any size")));
        }
        let size =
            |steps: u64| NonZeroU64::new(steps).map(|steps| with(step.saturating_mul(steps))).transpose();
        let fits = |steps: u64| match size(steps)? {
            None => Ok(true),
            Some(size) => self.nearest(size).fits(size, &self.conf, limit_bytes),
        };
        let (mut fitting, mut failing) = (0, 1);
        while failing <= most_steps && fits(failing)? {
            (fitting, failing) = (failing, failing * 2);
        }
        let has_end = failing <= most_steps;
        while has_end && failing - fitting > 1 {
            let middle = fitting.midpoint(failing);
            if fits(middle)? {
                fitting = middle;
            } else {
                failing = middle;
            }
        }
        let predict = |steps| size(steps)?.map(|size| self.predict(size, Some(limit_bytes))).transpose();
        Ok(Largest { fits: predict(fitting)?, fails: if has_end { predict(failing)? } else { None } })
    }

    fn predict(&self, size: Size, limit_bytes: Option<u64>) -> Result<Prediction> {
        self.check_numbers(size)?;
        let mut prediction = self.nearest(size).predict(size, &self.conf, limit_bytes)?;
        if size != prediction.nearest {
            prediction.confidence = prediction.confidence.max(self.checked());
        }
        Ok(prediction)
    }

    /// Returns an error for a size with a number that differs from that of all runs, if they all have the same one.
    fn check_numbers(&self, size: Size) -> Result<()> {
        let runs = || self.forecasts.iter().map(|of| of.base.size.numbers());
        for (at, name) in ["first", "second"].into_iter().enumerate() {
            let (all, asked) = (self.forecasts[0].base.size.numbers()[at], size.numbers()[at]);
            if asked != all && runs().all(|numbers| numbers[at] == all) {
                let what = format!(
                    "the {name} number of every run is {all}, so nothing is known about \
                     {asked}"
                );
                return Err(Error::misuse(format!("{what}; record a run with another")));
            }
        }
        Ok(())
    }

    /// Rates the worst check of the reserved peak.
    fn checked(&self) -> Confidence {
        let deviation = |check: &Check| {
            let [predicted, recorded] =
                [&check.predicted, &check.recorded].map(|of| of.reserved_peak_bytes.bytes);
            share(predicted.abs_diff(recorded), recorded)
        };
        rating(self.checks.iter().map(deviation).fold(0.0, f64::max))
    }

    /// Returns the run nearest to a size; the larger one of two that are equally near.
    fn nearest(&self, size: Size) -> &Forecast<'a> {
        let far = |of: &Forecast<'_>| distance(of.base.size, size);
        let nearer = |one: &&Forecast<'_>, other: &&Forecast<'_>| {
            far(one).total_cmp(&far(other)).then(other.base.size.cmp(&one.base.size))
        };
        // `aligned` rejects runs if none is complete.
        self.forecasts.iter().min_by(nearer).unwrap_or(&self.forecasts[0])
    }
}

/// Returns the sizes of two runs if the larger one needs less memory than the smaller one.
fn contradiction(runs: &[&SizedRun]) -> Option<[Size; 2]> {
    let is_larger = |one: Size, other: Size| {
        one != other && one.numbers().into_iter().zip(other.numbers()).all(|(one, other)| one >= other)
    };
    let whole = || runs.iter().filter(|run| !run.failed());
    let peak = |run: &SizedRun| run.requests.requested_peak_bytes();
    let mut pairs = whole().flat_map(|less| whole().map(move |more| [less, more]));
    let found = pairs.find(|[less, more]| is_larger(more.size, less.size) && peak(more) < peak(less));
    found.map(|[less, more]| [less.size, more.size])
}
