//! What a program asked of one device, in its order, made of that device's trace.

use super::{
    calls, prior,
    recorded_run::RecordedRun,
    step::{EntryIndex, Prior, Step},
};
use crate::{
    error::{Error, Result},
    event::{DeviceId, PoolId},
    history::{Confidence, Trust},
    snapshot::Snapshot,
};

/// The requests of one device, with what was recorded beside them.
///
/// They are made once and run as often as there are settings.
#[derive(Debug)]
pub struct Requests {
    pub(super) device: DeviceId,
    pub(super) steps: Vec<Step>,
    pub(super) n_slots: usize,
    pub(super) priors: Vec<Prior>,
    /// The private pools that requests go to.
    pub(super) pools: Vec<PoolId>,
    n_requests: usize,
    /// The device never was full, so that the recorded addresses fit a run in which nothing is refused.
    pub(super) never_full: bool,
    recorded: RecordedRun,
    trust: Trust,
    warnings: Vec<String>,
}

impl Requests {
    /// Reads the requests of a device from its trace.
    ///
    /// Blocks live before the history began come first. Frees that were
    /// completed late are completed at the same place. Segments that went back
    /// outside a request are taken as an emptied cache; see
    /// [`Requests::warnings`] for what a trace does not show.
    ///
    /// # Errors
    /// [`is_history`](crate::Error::is_history), with the
    /// [`entry`](crate::Error::entry): a trace without entries, entries out of
    /// order, an allocation over a live block, a second free, a size of 2^60
    /// or more; [`is_misuse`](crate::Error::is_misuse) without such a device.
    pub fn new(snapshot: &Snapshot, device: DeviceId) -> Result<Requests> {
        let n_devices = snapshot.device_traces.len().max(1);
        if device.index().is_none_or(|index| index >= n_devices) {
            return Err(Error::misuse(format!("there is no device {device}: the snapshot has {n_devices}")));
        }
        let trace = snapshot.trace(device);
        if trace.is_empty() {
            let what = "nothing was recorded; switch the history on before the program allocates";
            return Err(Error::history(device, None, what));
        }
        if EntryIndex::try_from(trace.len()).is_err() {
            return Err(Error::history(device, None, "more than 2^32 entries"));
        }
        let recorded = RecordedRun::new(snapshot, device);
        let read = calls::read(snapshot, device, &recorded)?;
        let trust = prior::judge(snapshot, trace.len(), &read, &recorded);
        let mut warnings = recorded.warnings().to_vec();
        warnings.extend(read.warnings);
        warnings.extend(prior::warning(&trust, &recorded));
        let is_request = |step: &&Step| matches!(step, Step::Alloc { .. } | Step::Fail { .. });
        Ok(Requests {
            device,
            n_requests: read.steps.iter().filter(is_request).count(),
            never_full: !read.gave_back && recorded.num_ooms == 0,
            steps: read.steps,
            n_slots: read.n_slots,
            priors: read.priors,
            pools: read.pools,
            recorded,
            trust,
            warnings,
        })
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// How many blocks were asked for, in vain or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.n_requests
    }

    /// Whether no block was asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.n_requests == 0
    }

    /// How many things there are to do in one run: requests, frees, completions.
    #[must_use]
    pub fn n_steps(&self) -> usize {
        self.steps.len()
    }

    /// How many blocks were live before the history began.
    #[must_use]
    pub fn n_pre_existing(&self) -> usize {
        self.priors.len()
    }

    /// What was asked for in blocks that were live before the history began.
    #[must_use]
    pub fn pre_existing_bytes(&self) -> u64 {
        self.priors.iter().fold(0, |sum, prior| sum.saturating_add(prior.bytes))
    }

    /// What the real allocator did.
    #[must_use]
    pub fn recorded(&self) -> &RecordedRun {
        &self.recorded
    }

    /// The facts that decide how far answers can be trusted.
    #[must_use]
    pub fn trust(&self) -> &Trust {
        &self.trust
    }

    /// How far answers can be trusted.
    #[must_use]
    pub fn confidence(&self) -> Confidence {
        self.trust.confidence(self.recorded.reserved_peak_bytes)
    }

    /// What the trace does not show, and what was assumed instead.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// A device that is never full: room for four times the most that was ever live.
    pub(super) fn ample_bytes(&self) -> u64 {
        const LEAST: u64 = 8 << 40;
        const MOST: u64 = 1 << 56;
        let mut held = vec![0; self.n_slots];
        let (mut live, mut peak) = (self.pre_existing_bytes(), 0_u64);
        self.priors.iter().for_each(|prior| held[prior.slot as usize] = prior.bytes);
        for step in &self.steps {
            match *step {
                Step::Alloc { request, slot } => {
                    held[slot as usize] = request.bytes;
                    live = live.saturating_add(request.bytes);
                }
                Step::Fail { request } => peak = peak.max(live.saturating_add(request.bytes)),
                Step::Free { slot, .. } | Step::Complete { slot, .. } => {
                    live = live.saturating_sub(held[slot as usize]);
                }
                Step::FreeLater { .. } | Step::EmptyCache { .. } => {}
            }
            peak = peak.max(live);
        }
        peak.saturating_mul(4).clamp(LEAST, MOST)
    }
}
