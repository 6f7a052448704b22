//! The requests of a program to one device, read from the device's trace.

use std::sync::OnceLock;

use super::{
    baseline::{Baseline, Level, levels},
    bounds::Bounds,
    calls,
    close_call::CloseCall,
    could_hold::CouldHold,
    prior,
    recorded_run::RecordedRun,
    start::Start,
    step::{EntryIndex, Prior, Step},
};
use crate::device::Deed;
use memreel_snapshot::{
    history::{ByDevice, Trust},
    model::Snapshot,
    words::{DeviceId, Error, PoolId, Result},
};

/// The requests of one device, with the results of the recorded run.
///
/// They are read once and can be run under any number of settings.
#[derive(Debug)]
pub struct Requests {
    pub(super) device: DeviceId,
    pub(super) steps: Vec<Step>,
    pub(super) n_slots: usize,
    pub(super) priors: Vec<Prior>,
    /// The private pools that requests go to.
    pub(super) pools: Vec<PoolId>,
    pub(super) n_requests: usize,
    /// What the device did for each request, by the request's entry.
    pub(super) deeds: Vec<(EntryIndex, Deed)>,
    pub(super) start: Start,
    /// The first entry that is replayed.
    pub(super) first_entry: usize,
    /// The size of a device on which the recorded ranges do not overlap, if they limit its size.
    pub(super) ranges_total_bytes: Option<u64>,
    /// The recorded level of reserved memory after each entry that changed it.
    pub(super) levels: Vec<Level>,
    pub(super) could_hold: Option<CouldHold>,
    pub(super) close_calls: Vec<CloseCall>,
    /// Whether the device was never full, so that a run without a limit can repeat the recorded one.
    pub(super) never_full: bool,
    /// Whether the program differs from the recorded one.
    pub(super) is_changed: bool,
    pub(super) recorded: RecordedRun,
    pub(super) trust: Trust,
    pub(super) warnings: Vec<String>,
    /// Computed at the first use.
    pub(super) baseline: OnceLock<Baseline>,
}

impl Requests {
    /// Reads the requests of a device from its trace.
    ///
    /// A run starts with the segments and blocks from before the first entry, at their addresses. A free that was
    /// completed late is completed at the same point in a run. Segments that were returned outside of a request mean
    /// that the program emptied the cache. [`Requests::warnings`] lists what a trace does not show.
    ///
    /// # Errors
    /// [`is_history`](crate::Error::is_history), with the
    /// [`entry`](crate::Error::entry), for a trace without entries, entries out of order, an allocation over
    /// a live block, a second free, or a size of 2^60 bytes or more;
    /// [`is_misuse`](crate::Error::is_misuse) if the snapshot does not have the device.
    pub fn new(snapshot: &Snapshot, device: impl Into<DeviceId>) -> Result<Requests> {
        Requests::read(&ByDevice::new(snapshot), device.into())
    }

    /// Reads the requests of several devices, in order. Like [`Requests::new`] for each of them, but faster.
    ///
    /// # Errors
    /// The first error of [`Requests::new`].
    pub fn of_devices(snapshot: &Snapshot, devices: &[DeviceId]) -> Result<Vec<Requests>> {
        let records = ByDevice::new(snapshot);
        devices.iter().map(|device| Requests::read(&records, *device)).collect()
    }

    fn read(records: &ByDevice<'_>, device: DeviceId) -> Result<Requests> {
        let snapshot = records.snapshot();
        let n_devices = snapshot.device_traces.len().max(1);
        if device.index().is_none_or(|index| index >= n_devices) {
            return Err(Error::misuse(format!("there is no device {device}: the snapshot has {n_devices}")));
        }
        let trace = snapshot.trace(device);
        if trace.is_empty() {
            let what = "nothing was recorded; start the history before the program allocates";
            return Err(Error::history(device, None, what));
        }
        if EntryIndex::try_from(trace.len()).is_err() {
            return Err(Error::history(device, None, "more than 2^32 entries"));
        }
        let recorded = RecordedRun::new(records, device);
        let read = calls::read(records, device, &recorded)?;
        let trust = prior::judge(records, device, trace.len(), &read, &recorded);
        let mut warnings = recorded.warnings().to_vec();
        warnings.extend(read.warnings.iter().cloned());
        let (start, ranges_total_bytes) = Start::new(records, device, &read, &recorded);
        let is_request = |step: &&Step| matches!(step, Step::Alloc { .. } | Step::Fail { .. });
        let mut requests = Requests {
            device,
            n_requests: read.steps.iter().filter(is_request).count(),
            never_full: !read.gave_back && !read.steps.iter().any(|step| matches!(step, Step::Fail { .. })),
            is_changed: false,
            steps: read.steps,
            n_slots: read.n_slots,
            priors: read.priors,
            pools: read.pools.ids,
            deeds: read.deeds,
            start,
            first_entry: read.first_entry,
            ranges_total_bytes,
            levels: levels(trace, recorded.start_bytes),
            could_hold: read.could_hold.map(|found| found.with_peak(recorded.reserved_peak_bytes)),
            close_calls: read.close_calls,
            recorded,
            trust,
            warnings,
            baseline: OnceLock::new(),
        };
        requests.refine(trace);
        let warning = prior::warning(&requests.trust, &requests.start);
        requests.warnings.extend(warning);
        Ok(requests)
    }

    /// Returns the device.
    #[must_use]
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// Returns the number of requests, including those that failed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.n_requests
    }

    /// Returns whether there are no requests.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.n_requests == 0
    }

    /// Returns the number of steps of one run: requests, frees, completions and emptied caches.
    #[must_use]
    pub fn n_steps(&self) -> usize {
        self.steps.len()
    }

    /// Returns the number of blocks that were live before the history started.
    #[must_use]
    pub fn n_pre_existing(&self) -> usize {
        self.priors.len()
    }

    /// Returns the requested bytes of the blocks that were live before the history started.
    #[must_use]
    pub fn pre_existing_bytes(&self) -> u64 {
        self.priors.iter().fold(0, |sum, prior| sum.saturating_add(prior.bytes))
    }

    /// Returns the results of the recorded run.
    #[must_use]
    pub fn recorded(&self) -> &RecordedRun {
        &self.recorded
    }

    /// Returns the facts that determine how far answers can be trusted.
    #[must_use]
    pub fn trust(&self) -> &Trust {
        &self.trust
    }

    /// Returns the bytes that the process could hold; `None` if every request succeeded without releasing the cache, so
    /// that nothing shows it.
    #[must_use]
    pub fn could_hold(&self) -> Option<CouldHold> {
        self.could_hold
    }

    /// Returns the requests that succeeded only after the allocator had released its cache, in order.
    #[must_use]
    pub fn close_calls(&self) -> &[CloseCall] {
        &self.close_calls
    }

    /// Returns the memory available to the recorded run, as far as requests show it, for a replay with the same memory.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.could_hold.map_or(Bounds::Ample, |found| found.bounds())
    }

    /// Returns how often the program emptied the cache.
    #[must_use]
    pub fn num_empty_cache(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step, Step::EmptyCache { .. })).count()
    }

    /// Returns what the trace does not show and what a run assumes instead, one sentence each.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the peak of requested bytes that are not yet free.
    pub(crate) fn requested_peak_bytes(&self) -> u64 {
        self.live_peaks().0
    }

    /// Returns what is live when the most bytes are, in no order: each request by its number in
    /// [`sizes`](Requests::sizes), and its bytes. Blocks from before the history have no number.
    pub(crate) fn live_at_peak(&self) -> Vec<(Option<usize>, u64)> {
        let peak = self.requested_peak_bytes();
        let mut held = vec![(None, 0); self.n_slots];
        let mut live = self.pre_existing_bytes();
        self.priors.iter().for_each(|prior| held[prior.slot as usize] = (None, prior.bytes));
        let mut n_requests = 0;
        for step in &self.steps {
            if live == peak {
                break;
            }
            match *step {
                Step::Alloc { request, slot } => {
                    held[slot as usize] = (Some(n_requests), request.bytes);
                    live = live.saturating_add(request.bytes);
                    n_requests += 1;
                }
                Step::Fail { .. } => n_requests += 1,
                Step::Free { slot, .. } | Step::Complete { slot, .. } => {
                    live = live.saturating_sub(std::mem::take(&mut held[slot as usize]).1);
                }
                Step::FreeLater { .. } | Step::EmptyCache { .. } => {}
            }
        }
        held.retain(|(_, bytes)| *bytes > 0);
        held
    }

    /// Returns the size of a device that is never full: four times the peak of live bytes, or of what is reserved at
    /// the start.
    pub(super) fn ample_bytes(&self) -> u64 {
        const LEAST: u64 = 8 << 40;
        const MOST: u64 = 1 << 56;
        let (live, wanted) = self.live_peaks();
        live.max(wanted).max(self.recorded.start_bytes).saturating_mul(4).clamp(LEAST, MOST)
    }

    /// Returns the peak of live requested bytes, and the peak if failed requests had succeeded.
    fn live_peaks(&self) -> (u64, u64) {
        let mut held = vec![0; self.n_slots];
        let mut live = self.pre_existing_bytes();
        let (mut peak, mut wanted) = (live, 0_u64);
        self.priors.iter().for_each(|prior| held[prior.slot as usize] = prior.bytes);
        for step in &self.steps {
            match *step {
                Step::Alloc { request, slot } => {
                    held[slot as usize] = request.bytes;
                    live = live.saturating_add(request.bytes);
                }
                Step::Fail { request } => wanted = wanted.max(live.saturating_add(request.bytes)),
                Step::Free { slot, .. } | Step::Complete { slot, .. } => {
                    live = live.saturating_sub(held[slot as usize]);
                }
                Step::FreeLater { .. } | Step::EmptyCache { .. } => {}
            }
            peak = peak.max(live);
        }
        (peak, wanted)
    }
}
