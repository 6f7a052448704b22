//! What becomes of a request that failed when it was recorded, and of those after it, under other settings.

use super::{
    replay::Question,
    requests::Requests,
    run::{Order, Run},
    step::Step,
};
use crate::recorder::Recorder;
use memreel_snapshot::words::Result;

/// What becomes of the last request that failed, and of those after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AfterFailure {
    /// Whether it is served, with all requests before it that were served when they were recorded.
    pub(super) is_served: bool,
    /// How many more of the same size are served.
    pub(super) num_further: u64,
    /// The number of recorded requests after it.
    pub(super) num_after: u64,
    /// How many of them are served.
    pub(super) num_served_after: u64,
}

impl Requests {
    /// Runs the requests under the settings `conf`, with falling addresses, and asks at the last request that failed
    /// when it was recorded for at most `most_further` more of its size. Returns `None` if none failed.
    pub(super) fn after_failure(
        &self,
        conf: &str,
        limit_bytes: Option<u64>,
        most_further: u32,
    ) -> Result<Option<AfterFailure>> {
        let is_failure = |step: &Step| matches!(step, Step::Fail { .. });
        let Some(at) = self.steps.iter().rposition(is_failure) else { return Ok(None) };
        let (before, after) = self.steps.split_at(at);
        let Some((Step::Fail { request }, after)) = after.split_first() else { return Ok(None) };
        let question = Question { conf: conf.to_owned(), limit_bytes, switch: None };
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
        let num_in_a_row = u64::from(run.serve(request, most_further.saturating_add(1))?);
        // The blocks that were asked for in addition are not in the way of the requests after it.
        let (mut run, _) = start()?;
        run.step(&Step::Fail { request: *request })?;
        let (n_failed, mut num_after) = (run.n_failed(), 0);
        for step in after {
            run.step(step)?;
            num_after += u64::from(matches!(step, Step::Alloc { .. }));
        }
        Ok(Some(AfterFailure {
            is_served: serves_all && num_in_a_row > 0,
            num_further: num_in_a_row.saturating_sub(1),
            num_after,
            num_served_after: num_after.saturating_sub(run.n_failed() - n_failed),
        }))
    }
}
