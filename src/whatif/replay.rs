//! A replay: the requests of one device under one setting.

use super::{
    answer::ReplayAnswer,
    bounds::Bounds,
    requests::Requests,
    run::{Conditions, Order, Switch, run},
};
use memreel_snapshot::words::Result;

/// Runs the requests of one device under one setting.
///
/// ```
/// # use memreel::{Reel, DeviceId, recorder::Recording, whatif::{Replay, Requests}};
/// # let reel = Reel::builder().history(Recording::all()).build()?;
/// # drop(reel.alloc(3 << 20)?);
/// let requests = Requests::new(&reel.snapshot(), DeviceId(0))?;
/// let answer = Replay::new(&requests).conf("expandable_segments:True").limit_bytes(1 << 30).run()?;
/// println!("{} bytes reserved at the peak", answer.outcome.reserved_peak_bytes);
/// # Ok::<(), memreel::Error>(())
/// ```
#[must_use = "a replay does nothing until it is run"]
#[derive(Clone)]
pub struct Replay<'a> {
    pub(super) requests: &'a Requests,
    pub(super) question: Question,
    on_progress: &'a (dyn Fn(u64) + Sync),
}

/// The settings, the available memory, and a change of settings.
#[derive(Clone, Debug, Default)]
pub(super) struct Question {
    pub(super) conf: String,
    pub(super) bounds: Bounds,
    pub(super) switch: Option<Switch>,
}

impl Question {
    /// Returns the conditions of a run.
    pub(super) fn conditions(&self, order: Order) -> Result<Conditions> {
        let (settings, bounds) = (self.conf.parse()?, self.bounds);
        Ok(Conditions { settings, bounds, order, switch: self.switch.clone() })
    }
}

impl<'a> Replay<'a> {
    /// Prepares a run with default settings and without a limit.
    pub fn new(requests: &'a Requests) -> Replay<'a> {
        Replay { requests, question: Question::default(), on_progress: &|_| () }
    }

    /// Sets the settings, as a text of `PYTORCH_ALLOC_CONF`. Default: empty.
    pub fn conf(mut self, conf: impl Into<String>) -> Self {
        self.question.conf = conf.into();
        self
    }

    /// Sets the most bytes that may be reserved. Default: no limit, and no request fails.
    pub fn limit_bytes(self, limit_bytes: impl Into<Option<u64>>) -> Self {
        self.bounds(limit_bytes.into().map_or(Bounds::Ample, Bounds::Limit))
    }

    /// Sets the available memory, such as [what the recorded run had](Requests::bounds). Default: a device that is
    /// never full.
    pub fn bounds(mut self, bounds: Bounds) -> Self {
        self.question.bounds = bounds;
        self
    }

    /// Changes the settings at run time, before the request of a trace entry or the first one after it. The text resets
    /// what [`Settings::updated`](crate::allocator::Settings::updated) names. Default: no change.
    pub fn switch(mut self, entry: usize, conf: impl Into<String>) -> Self {
        self.question.switch = Some(Switch { entry, conf: conf.into() });
        self
    }

    /// Sets a function that is called with the number of steps since the last call. Each run takes
    /// [`n_steps`](Requests::n_steps) steps, and an answer takes two or three runs. Default: none.
    pub fn on_progress(mut self, on_progress: &'a (dyn Fn(u64) + Sync)) -> Self {
        self.on_progress = on_progress;
        self
    }

    /// Runs the requests.
    ///
    /// # Errors
    /// [`is_invalid_option`](crate::Error::is_invalid_option) for settings that cannot be read.
    pub fn run(&self) -> Result<ReplayAnswer> {
        let run_in = |order| run(self.requests, &self.question.conditions(order)?, self.on_progress);
        let (rising, falling) = (run_in(Order::Rising)?, run_in(Order::Falling)?);
        let recorded =
            can_repeat(self.requests, &self.question).then(|| run_in(Order::Recorded)).transpose()?;
        Ok(ReplayAnswer {
            conf: self.question.conf.clone(),
            switch: self.question.switch.clone(),
            device: self.requests.device(),
            has_recorded_addresses: recorded.is_some(),
            outcome: recorded.unwrap_or_else(|| falling.clone()),
            rising,
            falling,
            baseline: *self.requests.baseline(),
            confidence: self.requests.confidence(),
        })
    }
}

impl std::fmt::Debug for Replay<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("question", &self.question).finish_non_exhaustive()
    }
}

/// Returns whether a run repeats the recorded one, so that it can use the recorded addresses.
pub(super) fn can_repeat(requests: &Requests, question: &Question) -> bool {
    let meets_the_same = match question.bounds.most_bytes() {
        None => requests.never_full,
        Some(bytes) => requests.could_hold().is_some_and(|found| found.allows(bytes)),
    };
    meets_the_same
        && question.switch.is_none()
        && requests.recorded().usable_conf() == question.conf
        && requests.baseline().is_exact()
}
