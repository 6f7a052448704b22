//! A change of a program at one call: its requests are removed, resized, or freed after their use.

use super::{call_place::CallPlace, freed_after_use::freed_after_use, requests::Requests, step::Step};
use memreel_snapshot::{
    model::Snapshot,
    words::{Error, Result},
};

/// A change of the requests below one call.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    call: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Without,
    Scaled(f64),
    FreedAfterUse,
}

impl Change {
    /// Removes the requests. `call` is a part of `function (path/file.py:LINE)`, as answers print it.
    #[must_use]
    pub fn without(call: impl Into<String>) -> Change {
        Change { call: call.into(), kind: Kind::Without }
    }

    /// Multiplies the sizes of the requests: 0.5 is half the precision.
    ///
    /// # Errors
    /// [`is_misuse`](crate::Error::is_misuse) for a factor that is not above 0, or above 1000.
    pub fn scaled(call: impl Into<String>, factor: f64) -> Result<Change> {
        if factor > 0.0 && factor <= 1000.0 {
            return Ok(Change { call: call.into(), kind: Kind::Scaled(factor) });
        }
        Err(Error::misuse(format!("the factor {factor} is not above 0 and at most 1000")))
    }

    /// Frees what the call leaves, except its last block, when the call is over, and requests all of it again before
    /// the backward pass frees it: a checkpoint (`torch.utils.checkpoint`) around the call.
    #[must_use]
    pub fn freed_after_use(call: impl Into<String>) -> Change {
        Change { call: call.into(), kind: Kind::FreedAfterUse }
    }
}

impl Requests {
    /// Returns the requests of the changed program. Blocks from before the history are unchanged.
    ///
    /// # Errors
    /// [`is_misuse`](crate::Error::is_misuse) if no request is made below the call, or if nothing that it leaves is freed
    /// later.
    pub fn changed(&self, snapshot: &Snapshot, change: &Change) -> Result<Requests> {
        let place = CallPlace::new(&change.call, &snapshot.stacks);
        let trace = snapshot.trace(self.device);
        let below = |step: &Step| match step {
            Step::Alloc { .. } | Step::Fail { .. } => place.below(trace[step.entry()].stack?),
            _ => None,
        };
        let call = &change.call;
        if !self.steps.iter().any(|step| below(step).is_some()) {
            let what = format!(
                "no request on device {} is made inside {call:?}; `memreel top` shows the calls",
                self.device
            );
            return Err(Error::misuse(what));
        }
        let (steps, n_more_slots) = match change.kind {
            Kind::Without => (without(&self.steps, self.n_slots, |step| below(step).is_some()), 0),
            Kind::Scaled(factor) => (scaled(&self.steps, factor, |step| below(step).is_some()), 0),
            Kind::FreedAfterUse => freed_after_use(&self.steps, self.n_slots, below).ok_or_else(|| {
                Error::misuse(format!("none of the blocks that {call:?} leaves allocated are freed later"))
            })?,
        };
        Ok(Requests { is_changed: true, ..self.changed_to(steps, n_more_slots) })
    }
}

fn without(steps: &[Step], n_slots: usize, is_below: impl Fn(&Step) -> bool) -> Vec<Step> {
    let mut is_left_out = vec![false; n_slots];
    let stays = |step: &&Step| match step {
        Step::Alloc { slot, .. } => {
            is_left_out[*slot as usize] = is_below(step);
            !is_left_out[*slot as usize]
        }
        Step::Fail { .. } => !is_below(step),
        Step::Free { slot, .. } | Step::FreeLater { slot, .. } | Step::Complete { slot, .. } => {
            !is_left_out[*slot as usize]
        }
        Step::EmptyCache { .. } => true,
    };
    steps.iter().filter(stays).copied().collect()
}

fn scaled(steps: &[Step], factor: f64, is_below: impl Fn(&Step) -> bool) -> Vec<Step> {
    let mut steps = steps.to_vec();
    for step in steps.iter_mut().filter(|step| is_below(step)) {
        if let Step::Alloc { request, .. } | Step::Fail { request } = step {
            request.bytes = times(request.bytes, factor);
        }
    }
    steps
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
// A request has at least one byte; a factor is at most 1000 and a size below 2^60, so the product does not saturate.
fn times(bytes: u64, factor: f64) -> u64 {
    (bytes as f64 * factor).ceil().max(1.0) as u64
}
