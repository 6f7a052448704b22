//! Determines what happens, under another setting, to a request that failed when it was recorded, and to later
//! requests.

use super::{
    bounds::Bounds,
    replay::Question,
    requests::Requests,
    run::{Order, Run},
    step::Step,
};
use crate::recorder::Recorder;
use memreel_snapshot::{analysis::oom::Served, words::Result};

/// What happens to a failed request and to later requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AfterFailure {
    /// How many requests of its size are satisfied in a row, including itself; none if an earlier request fails that
    /// succeeded when it was recorded.
    pub(super) served: Served,
    /// The number of recorded requests after it.
    pub(super) num_after: u64,
    /// How many of them are satisfied.
    pub(super) num_served_after: u64,
}

impl Requests {
    /// Runs the requests under the settings `conf`, with falling addresses, and at the failed request of a trace entry
    /// allocates as many blocks of its size as fit. Returns `None` if the entry is not such a request.
    pub(super) fn after_failure(
        &self,
        entry: usize,
        conf: &str,
        bounds: Bounds,
    ) -> Result<Option<AfterFailure>> {
        let is_failure = |step: &Step| matches!(step, Step::Fail { .. });
        let is_asked = |step: &Step| is_failure(step) && step.entry() == entry;
        let Some(at) = self.steps.iter().position(is_asked) else { return Ok(None) };
        let (before, after) = self.steps.split_at(at);
        let Some((Step::Fail { request }, after)) = after.split_first() else { return Ok(None) };
        let question = Question { conf: conf.to_owned(), bounds, switch: None };
        let start = || -> Result<(Run<'_>, bool)> {
            let mut run = Run::start(self, &question.conditions(Order::Falling)?, &Recorder::new())?;
            let mut serves_all = true;
            for step in before {
                let n_failed = run.n_failed();
                run.step(step)?;
                serves_all &= is_failure(step) || run.n_failed() == n_failed;
            }
            Ok((run, serves_all))
        };
        let (run, serves_all) = start()?;
        let served =
            if serves_all { Served::new(run.serve(request, Served::MOST)?) } else { Served::default() };
        // The additional blocks must not be in the way of later requests.
        let (mut run, _) = start()?;
        run.step(&Step::Fail { request: *request })?;
        let (n_failed, mut num_after) = (run.n_failed(), 0);
        for step in after {
            run.step(step)?;
            num_after += u64::from(matches!(step, Step::Alloc { .. }));
        }
        Ok(Some(AfterFailure {
            served,
            num_after,
            num_served_after: num_after.saturating_sub(run.n_failed() - n_failed),
        }))
    }
}
