//! Determines whether one request of a recorded history would succeed under other settings.

use std::{ops::RangeInclusive, panic::resume_unwind, thread};

use super::{
    bounds::Bounds,
    requests::Requests,
    run::{Conditions, Order, Run},
    step::Step,
};
use crate::{allocator::Settings, recorder::Recorder};
use memreel_snapshot::{analysis::oom::Fit, history::Confidence, words::Result};

/// The bytes that a process could hold when a request failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Capacity {
    /// A whole device of this size, except what other processes used.
    Device(u64),
    /// A limit on the process, which is in this range. A request counts against a limit with the whole segment that it
    /// would need, even with expandable segments.
    Limit(RangeInclusive<u64>),
}

impl Requests {
    /// Returns whether the request of a trace entry would succeed under the settings `conf`.
    ///
    /// The answer is `Yes` only if the request succeeds with the fewest bytes that the process could hold, and `No`
    /// only if it fails with the most, in both orders of addresses. The requests after it do not matter.
    ///
    /// ```
    /// use memreel::{
    ///     DeviceId, Reel, device::Simulated, recorder::Recording, whatif::{Fit, Requests, Capacity},
    /// };
    ///
    /// let reel = Reel::builder().device(Simulated::new(60 << 20)).history(Recording::all()).build()?;
    /// let _blocks = (reel.alloc(9 << 20)?, reel.alloc(12 << 20)?);
    /// reel.alloc(30 << 20).unwrap_err();
    /// let snapshot = reel.snapshot();
    /// let failed = snapshot.device_traces[0].len() - 1;
    /// let requests = Requests::new(&snapshot, DeviceId(0))?;
    /// assert_eq!(requests.fit(failed, "", &Capacity::Device(60 << 20))?, Fit::No);
    /// assert_eq!(requests.fit(failed, "expandable_segments:True", &Capacity::Device(60 << 20))?, Fit::Yes);
    /// # Ok::<(), memreel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`is_invalid_option`](crate::Error::is_invalid_option) for settings that cannot be read.
    pub fn fit(&self, entry: usize, conf: &str, capacity: &Capacity) -> Result<Fit> {
        let settings: Settings = conf.parse()?;
        // The blocks of a private pool, and when it is released, are known only in part. So are a request that was in
        // progress when the history started, and the effect of other settings on blocks from before it.
        let is_known = self.pools.is_empty() && entry >= self.first_entry && self.trust().begins_empty();
        if self.confidence() != Confidence::Sure || !is_known {
            return Ok(Fit::Perhaps);
        }
        let are_served = |bounds| -> Result<[bool; 2]> {
            let run_in = |order| {
                let settings = settings.clone();
                self.is_served(entry, &Conditions { settings, bounds, order, switch: None })
            };
            let (rising, falling) = thread::scope(|scope| {
                // A process without memory may not be able to start a thread.
                let rising = thread::Builder::new().spawn_scoped(scope, || run_in(Order::Rising));
                let falling = run_in(Order::Falling);
                let rising = match rising {
                    Ok(rising) => rising.join().unwrap_or_else(|panic| resume_unwind(panic)),
                    Err(_) => run_in(Order::Rising),
                };
                (rising, falling)
            });
            Ok([rising?, falling?])
        };
        let (least, most) = match capacity {
            Capacity::Device(bytes) => {
                let served = are_served(Bounds::Device(*bytes))?;
                (served, served)
            }
            Capacity::Limit(limits) => {
                (are_served(Bounds::Limit(*limits.start()))?, are_served(Bounds::Limit(*limits.end()))?)
            }
        };
        Ok(match (least, most) {
            ([true, true], _) => Fit::Yes,
            (_, [false, false]) => Fit::No,
            _ => Fit::Perhaps,
        })
    }

    /// Returns whether the request of an entry succeeds in a run, as do the earlier requests that succeeded when they
    /// were recorded.
    fn is_served(&self, entry: usize, conditions: &Conditions) -> Result<bool> {
        let recorder = Recorder::new();
        // On any thread: where the process's heap is recorded, a replay is not part of the program.
        let _own = recorder.own_work();
        let mut run = Run::start(self, conditions, &recorder)?;
        for step in &self.steps {
            let n_failed = run.n_failed();
            run.step(step)?;
            let is_served = run.n_failed() == n_failed;
            match step {
                Step::Alloc { .. } | Step::Fail { .. } if step.entry() == entry => return Ok(is_served),
                Step::Alloc { .. } if !is_served => return Ok(false),
                _ => {}
            }
        }
        Ok(false)
    }
}
