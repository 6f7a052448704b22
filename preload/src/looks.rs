//! Looks at the devices, one after the other, and what was seen at the look before.

use std::time::{Duration, Instant};

use memreel::integrate::UsageReport;

use super::{
    completions,
    driver::{Driver, driver},
    driver_memory::{add, take},
    gpu::{Gpu, PAGE_BYTES},
    others,
    parts::Part,
    pools,
    state::State,
};

/// How often other processes are asked for: that takes longer than a look at the memory.
const OTHERS: Duration = Duration::from_secs(1);

/// How often a report is written that is like the one before.
const UNCHANGED: Duration = Duration::from_secs(10);

/// What was seen of the devices.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    by_gpu: Vec<(i32, Seen)>,
}

/// What was seen of one device.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    report: Option<(UsageReport, Instant)>,
    others: Option<(Option<u64>, Instant)>,
    /// Bytes that nothing explains, and the number of measured calls at that time: what two looks see is there.
    unexplained: Option<(i64, u64)>,
}

/// What one look saw.
#[derive(Clone, Copy, Debug)]
struct Sight {
    used_bytes: u64,
    total_bytes: u64,
    pools_bytes: u64,
}

impl Looks {
    /// Looks at every device that has a context.
    pub(crate) fn look(&mut self, state: &State) {
        let Some(driver) = driver() else { return };
        driver.relax_captures();
        for gpu in state.gpus() {
            let Some(sight) = sight(gpu, driver, true) else { continue };
            let place = self.by_gpu.iter().position(|(device, _)| *device == gpu.device);
            let place = place.unwrap_or_else(|| {
                self.by_gpu.push((gpu.device, Seen::default()));
                self.by_gpu.len() - 1
            });
            self.by_gpu[place].1.take_in(state, gpu, sight);
        }
    }
}

/// Reports what the devices use now, before the program ends.
pub(crate) fn last_look(state: &State) {
    for gpu in state.gpus() {
        look_at_end(state, gpu);
    }
}

/// Reports what a device uses now, before its context ends.
pub(crate) fn look_at_end(state: &State, gpu: &Gpu) -> Option<()> {
    let sight = sight(gpu, driver()?, true)?;
    let report = report(gpu, sight, others::other_processes_bytes(gpu));
    state.recorder().report_usage(gpu.ledger_device(), report);
    Some(())
}

/// Looks at a device, if it has a context.
fn sight(gpu: &Gpu, driver: &Driver, completes: bool) -> Option<Sight> {
    // The lock keeps the context: whoever ends it takes it away first.
    let context = gpu.context();
    let look = || {
        if completes {
            completions::complete(gpu, driver);
        }
        let pools_bytes = pools::reserved_bytes(gpu, driver);
        driver.memory().map(|memory| Sight {
            used_bytes: memory.used_bytes,
            total_bytes: memory.total_bytes,
            pools_bytes,
        })
    };
    // SAFETY: the context exists while the lock is held.
    unsafe { driver.within((*context)?, look) }.flatten()
}

fn report(gpu: &Gpu, sight: Sight, other_processes_bytes: Option<u64>) -> UsageReport {
    UsageReport {
        used_bytes: sight.used_bytes,
        total_bytes: sight.total_bytes,
        other_processes_bytes,
        pool_slack_bytes: sight.pools_bytes.saturating_sub(gpu.pool_bytes()),
        page_rounding_bytes: gpu.page_rounding_bytes(),
    }
}

impl Seen {
    fn take_in(&mut self, state: &State, gpu: &Gpu, sight: Sight) {
        let others_bytes = self.others_bytes(gpu);
        if let Some(others_bytes) = others_bytes {
            self.explain(gpu, sight, others_bytes);
        }
        let report = report(gpu, sight, others_bytes);
        let is_new = self.report.is_none_or(|(before, at)| before != report || at.elapsed() >= UNCHANGED);
        if is_new {
            self.report = Some((report, Instant::now()));
            state.recorder().report_usage(gpu.ledger_device(), report);
        }
    }

    fn others_bytes(&mut self, gpu: &Gpu) -> Option<u64> {
        match self.others {
            Some((bytes, at)) if at.elapsed() < OTHERS => bytes,
            _ => {
                let bytes = others::other_processes_bytes(gpu);
                self.others = Some((bytes, Instant::now()));
                bytes
            }
        }
    }

    /// Books what two looks saw and nothing explains as the driver's own, such as code that is loaded at its first use.
    fn explain(&mut self, gpu: &Gpu, sight: Sight, others_bytes: u64) {
        let booked_bytes = gpu.booked_bytes() + sight.pools_bytes + others_bytes;
        let unexplained = sight.used_bytes.cast_signed() - booked_bytes.cast_signed();
        let Some(calls) = gpu.parts().quiet() else {
            self.unexplained = None;
            return;
        };
        let before = self.unexplained.replace((unexplained, calls)).filter(|(_, before)| *before == calls);
        let Some((before, _)) = before else { return };
        let page = PAGE_BYTES.cast_signed();
        let is_booked = match (unexplained.min(before), unexplained.max(before)) {
            (least, _) if least >= page => {
                add(gpu, Part::Other, least.cast_unsigned());
                true
            }
            (_, most) if most <= -page => {
                take(gpu, Part::Other, most.unsigned_abs());
                true
            }
            _ => false,
        };
        if is_booked {
            self.unexplained = None;
        }
    }
}
