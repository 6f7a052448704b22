//! A replay: the requests of one device under one setting.

use super::{
    answer::Answer,
    requests::Requests,
    run::{Conditions, Order, run},
};
use crate::allocator::Settings;
use memreel_snapshot::{history::Confidence, words::Result};

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

/// A setting and a limit.
#[derive(Clone, Debug, Default)]
pub(super) struct Question {
    pub(super) conf: String,
    pub(super) limit_bytes: Option<u64>,
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
    pub fn limit_bytes(mut self, limit_bytes: impl Into<Option<u64>>) -> Self {
        self.question.limit_bytes = limit_bytes.into();
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
    pub fn run(&self) -> Result<Answer> {
        let settings: Settings = self.question.conf.parse()?;
        let run_in = |order| {
            let (settings, limit_bytes) = (settings.clone(), self.question.limit_bytes);
            run(
                self.requests,
                &Conditions { settings, limit_bytes, device_bytes: None, order },
                self.on_progress,
            )
        };
        let (rising, falling) = (run_in(Order::Rising)?, run_in(Order::Falling)?);
        // The recorded addresses do not fit a trace that is not complete.
        let recorded =
            can_repeat(self.requests, &self.question).then(|| run_in(Order::Recorded).ok()).flatten();
        Ok(Answer {
            conf: self.question.conf.clone(),
            device: self.requests.device(),
            has_recorded_addresses: recorded.is_some(),
            outcome: recorded.unwrap_or_else(|| falling.clone()),
            rising,
            falling,
            confidence: self.requests.confidence(),
        })
    }
}

impl std::fmt::Debug for Replay<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("question", &self.question).finish_non_exhaustive()
    }
}

/// Returns whether a run can use the recorded addresses.
pub(super) fn can_repeat(requests: &Requests, question: &Question) -> bool {
    question.limit_bytes.is_none()
        && requests.never_full
        && requests.confidence() == Confidence::Sure
        && requests.recorded().usable_conf() == question.conf
}
