//! The same requests with other sizes, or with the frees of a burst in a random order.

use std::sync::OnceLock;

use super::{requests::Requests, step::Step};

impl Requests {
    /// Returns the entry and the bytes of each request, in their order.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (usize, u64)> {
        self.steps.iter().filter_map(|step| match step {
            Step::Alloc { request, .. } | Step::Fail { request } => {
                Some((request.entry as usize, request.bytes))
            }
            _ => None,
        })
    }

    /// Returns the requests with other sizes, in order. Unless all sizes are unchanged, a run of them does not repeat
    /// the recorded one.
    pub(crate) fn resized(&self, sizes: &[u64]) -> Requests {
        if self.sizes().map(|(_, bytes)| bytes).eq(sizes.iter().copied()) {
            return self.with_steps(self.steps.clone());
        }
        let mut sizes = sizes.iter().copied();
        let mut steps = self.steps.clone();
        for step in &mut steps {
            if let Step::Alloc { request, .. } | Step::Fail { request } = step {
                request.bytes = sizes.next().unwrap_or(request.bytes);
            }
        }
        self.changed_to(steps, 0)
    }

    /// Returns the requests with the frees of each burst in a random order. A burst is a run of frees without a request
    /// between them.
    pub(crate) fn with_drawn_frees(&self, seed: u64) -> Requests {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut steps = self.steps.clone();
        let is_free = |step: &Step| matches!(step, Step::Free { .. });
        let bursts = steps.chunk_by_mut(|one, next| is_free(one) && is_free(next));
        bursts.for_each(|burst| random.shuffle(burst));
        self.changed_to(steps, 0)
    }

    /// Returns other requests with `n_more` additional slots. A run of them does not repeat the recorded one.
    pub(super) fn changed_to(&self, steps: Vec<Step>, n_more: usize) -> Requests {
        let is_request = |step: &&Step| matches!(step, Step::Alloc { .. } | Step::Fail { .. });
        Requests {
            n_requests: steps.iter().filter(is_request).count(),
            n_slots: self.n_slots + n_more,
            never_full: false,
            could_hold: None,
            close_calls: Vec::new(),
            ..self.with_steps(steps)
        }
    }

    fn with_steps(&self, steps: Vec<Step>) -> Requests {
        Requests {
            device: self.device,
            steps,
            n_slots: self.n_slots,
            priors: self.priors.clone(),
            pools: self.pools.clone(),
            n_requests: self.n_requests,
            deeds: self.deeds.clone(),
            start: self.start.clone(),
            first_entry: self.first_entry,
            ranges_total_bytes: self.ranges_total_bytes,
            levels: self.levels.clone(),
            could_hold: self.could_hold,
            close_calls: self.close_calls.clone(),
            never_full: self.never_full,
            is_changed: self.is_changed,
            recorded: self.recorded.clone(),
            trust: self.trust,
            warnings: self.warnings.clone(),
            baseline: OnceLock::from(*self.baseline()),
        }
    }
}
