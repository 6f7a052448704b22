//! Looks at the devices, one after the other, and what was seen at the look before.

use std::time::{Duration, Instant};

use memreel::integrate::UsageReport;

use super::{
    completions,
    driver::{Driver, driver},
    driver_memory::{add, set, take},
    gpu::{Gpu, PAGE_BYTES},
    nested,
    others::{self, Processes},
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
    processes: Option<(Option<Processes>, Instant)>,
}

/// What one look saw.
#[derive(Clone, Copy, Debug)]
struct Sight {
    used_bytes: u64,
    total_bytes: u64,
    pools_bytes: u64,
    graph_bytes: u64,
    booked_bytes: u64,
    /// The number of wrapped calls so far, if none was under way: then the figures are of one moment.
    calls: Option<u64>,
    n_own: u64,
}

impl Looks {
    /// Looks at every device that has a context.
    pub(crate) fn look(&mut self, state: &State) {
        let Some(driver) = driver() else { return };
        driver.relax_captures();
        for gpu in state.gpus() {
            let Some(sight) = sight(gpu, driver, 0) else { continue };
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

/// Reports what a device uses now, before its context ends. The calling thread is within a wrapped call, or at the exit,
/// which counts as one.
pub(crate) fn look_at_end(state: &State, gpu: &Gpu) -> Option<()> {
    let driver = driver()?;
    let mode = driver.relax_captures();
    let sight = sight(gpu, driver, 1);
    driver.restore_captures(mode);
    let sight = sight?;
    let processes = others::processes(gpu);
    explain(gpu, sight, processes);
    state.recorder().report_usage(gpu.ledger_device(), report(gpu, sight, processes));
    Some(())
}

/// Looks at a device, if it has a context.
fn sight(gpu: &Gpu, driver: &Driver, n_own: u64) -> Option<Sight> {
    // The lock keeps the context: a call that ends it takes it away first.
    let context = gpu.context();
    let look = || {
        completions::complete(gpu, driver);
        let before = nested::quiet(n_own);
        let (pools_bytes, graph_bytes) = (pools::reserved_bytes(gpu, driver), driver.graph_bytes(gpu.device));
        let (memory, booked_bytes) = (driver.memory()?, gpu.booked_bytes());
        Some(Sight {
            used_bytes: memory.used_bytes,
            total_bytes: memory.total_bytes,
            pools_bytes,
            graph_bytes,
            booked_bytes,
            calls: before.filter(|_| before == nested::quiet(n_own)),
            n_own,
        })
    };
    // SAFETY: the context exists while the lock is held.
    unsafe { driver.within((*context)?, look) }.flatten()
}

fn report(gpu: &Gpu, sight: Sight, processes: Option<Processes>) -> UsageReport {
    UsageReport {
        used_bytes: sight.used_bytes,
        total_bytes: sight.total_bytes,
        other_processes_bytes: processes.map(|processes| processes.others_bytes),
        pool_slack_bytes: sight.pools_bytes.saturating_sub(gpu.pool_bytes()),
        page_rounding_bytes: gpu.page_rounding_bytes(),
    }
}

impl Seen {
    fn take_in(&mut self, state: &State, gpu: &Gpu, sight: Sight) {
        let mut processes = self.processes(gpu, OTHERS);
        if sight.unexplained(processes).is_some() {
            processes = self.processes(gpu, Duration::ZERO);
        }
        explain(gpu, sight, processes);
        let report = report(gpu, sight, processes);
        let is_new = self.report.is_none_or(|(before, at)| before != report || at.elapsed() >= UNCHANGED);
        if is_new {
            self.report = Some((report, Instant::now()));
            state.recorder().report_usage(gpu.ledger_device(), report);
        }
    }

    /// What processes use, as it was at most so long ago.
    fn processes(&mut self, gpu: &Gpu, ago: Duration) -> Option<Processes> {
        match self.processes {
            Some((found, at)) if at.elapsed() < ago => found,
            _ => {
                let found = others::processes(gpu);
                self.processes = Some((found, Instant::now()));
                found
            }
        }
    }
}

impl Sight {
    /// The bytes that nothing explains, if they are a page or more, or a page or more are missing.
    fn unexplained(&self, processes: Option<Processes>) -> Option<i64> {
        let Processes { own_bytes, others_bytes } = processes?;
        // The processes were asked later, and nothing may have happened in between.
        let is_of_one_moment = self.calls.is_some() && self.calls == nested::quiet(self.n_own);
        let used_bytes = if others_bytes > 0 { own_bytes } else { self.used_bytes };
        let booked_bytes = self.booked_bytes + self.pools_bytes + self.graph_bytes;
        let unexplained = used_bytes.cast_signed() - booked_bytes.cast_signed();
        (is_of_one_moment && unexplained.unsigned_abs() >= PAGE_BYTES).then_some(unexplained)
    }
}

/// Records the memory of graphs, and as the driver's own what nothing explains, such as code that is loaded at its first
/// use.
fn explain(gpu: &Gpu, sight: Sight, processes: Option<Processes>) {
    set(gpu, Part::GraphMemory, sight.graph_bytes);
    match sight.unexplained(processes) {
        Some(more) if more > 0 => add(gpu, Part::Other, more.cast_unsigned()),
        Some(less) => take(gpu, Part::Other, less.unsigned_abs()),
        None => {}
    }
}
