//! Finds what only the replay shows: the sizes of blocks that were in use when the history started, and whether a
//! request completed frees before or after it had found no block.
//!
//! A large block may be up to a mebibyte larger than its request. If its assumed size is too small, the free block
//! after it is too large, and the replay may put a request there that the recorded run put elsewhere. Then the block
//! was larger: at least so much that the request did not fit after it.

use super::{
    bounds::Bounds,
    requests::Requests,
    run::{Conditions, Order, Run},
    start::Start,
    step::Step,
};
use crate::{device::Deed, recorder::Recorder};
use memreel_snapshot::{
    model::TraceEntry,
    words::{Address, Result, torch::BLOCK_BYTES},
};

/// The most runs: each of them finds one block.
const MOST_RUNS: usize = 32;

/// A request that the replay places elsewhere than the recorded run did.
struct Misplaced {
    /// The number of its step.
    step: usize,
    address: Address,
    /// The free bytes there before the request.
    free_bytes: u64,
    rounded_bytes: u64,
}

impl Requests {
    /// Enlarges blocks of the start until the replay puts no request directly after one of them that was put elsewhere.
    /// A start that cannot be restored is discarded.
    pub(super) fn refine(&mut self, trace: &[TraceEntry]) {
        if matches!(&self.start, Start::Recorded(layout) if layout.segments.is_empty()) {
            return;
        }
        for order in [Order::Recorded, Order::Falling, Order::Rising] {
            let begun = self.begun(order).map(drop);
            if let Err(error) = begun {
                self.start = Start::Anew { reason: error.to_string() };
            }
        }
        if self.priors.iter().all(|prior| prior.block_bytes.is_some()) {
            return;
        }
        for _ in 0..MOST_RUNS {
            let Ok(Some(found)) = self.misplaced(trace) else { return };
            if self.complete_after(found.step) {
                continue;
            }
            let missing_bytes = (found.free_bytes + BLOCK_BYTES).saturating_sub(found.rounded_bytes);
            let settings = &self.recorded().settings.clone();
            let Start::Recorded(layout) = &mut self.start else { return };
            if !layout.lengthen(found.address, missing_bytes, settings) {
                return;
            }
        }
    }

    /// Moves the frees that a request completed to after it, if it took memory from the device: they were completed
    /// after it had found no block. Returns whether there were any.
    fn complete_after(&mut self, step: usize) -> bool {
        let entry = self.steps[step].entry();
        let grew = self.deeds.iter().any(|(of, deed)| *of as usize == entry && *deed != Deed::Took);
        let is_complete = |step: &&Step| matches!(step, Step::Complete { .. });
        let n = self.steps[..step].iter().rev().take_while(is_complete).count();
        if grew {
            self.steps[step - n..=step].rotate_right(1);
        }
        grew && n > 0
    }

    /// Starts a run under the recorded setting.
    fn begun(&self, order: Order) -> Result<Run<'_>> {
        let settings = self.recorded().settings.clone();
        let conditions = Conditions { settings, bounds: Bounds::Ample, order, switch: None };
        Run::start(self, &conditions, &Recorder::new())
    }

    /// Returns the first request that the replay places elsewhere, or satisfies although it failed.
    fn misplaced(&self, trace: &[TraceEntry]) -> Result<Option<Misplaced>> {
        let mut run = self.begun(Order::Recorded)?;
        for (number, step) in self.steps.iter().enumerate() {
            let n_failed = run.n_failed();
            run.step(step)?;
            let (request, address) = match step {
                Step::Alloc { request, slot } => (request, run.address(*slot)),
                // It succeeded and was freed again.
                Step::Fail { request } if run.n_failed() == n_failed => {
                    (request, run.ask(request).ok().map(|block| block.address()))
                }
                _ => continue,
            };
            let is_recorded =
                matches!(step, Step::Alloc { .. }) && address == Some(trace[step.entry()].address);
            if !is_recorded {
                return Ok(address.map(|address| Misplaced {
                    step: number,
                    address,
                    free_bytes: run.bytes_from(address),
                    rounded_bytes: self.recorded().settings.rounded_bytes(request.bytes),
                }));
            }
        }
        Ok(None)
    }
}
