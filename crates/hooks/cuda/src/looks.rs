//! Looks at the devices: what they report as used, and who uses it.

use std::time::{Duration, Instant};

use memreel::integrate::UsageReport;

use super::{
    addresses,
    alive::Look,
    completions,
    driver::{Driver, driver},
    driver_memory::{add, set, take},
    gpu::Gpu,
    intervals, nested, others,
    parts::Part,
    pools,
    seen::{PAGE_BYTES, Processes},
    state::{State, is_forked, record},
};

/// How often a look is retried until no call is in progress.
const TRIES: u32 = 3;

/// How long a call of the program waits for the look of another thread.
const PATIENCE: Duration = Duration::from_millis(10);

/// The times of reports and events have microseconds.
const MICROSECOND: Duration = Duration::from_micros(1);

/// The reason for a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reason {
    /// At intervals, by a thread that has ended a call.
    Interval,
    /// By the thread of a call that has reached a new peak.
    Peak,
    /// By the thread of a call that was refused.
    Refusal,
    /// By the thread of a call that ends a context, or of the exit, which counts as a call.
    End,
}

/// The result of one look.
#[derive(Clone, Copy, Debug)]
struct Sight {
    used_bytes: u64,
    total_bytes: u64,
    pools_bytes: u64,
    graph_bytes: u64,
    /// Everything that is accounted for.
    booked_bytes: u64,
    processes: Option<Processes>,
    /// Whether the processes were asked in this look.
    is_asked: bool,
    /// Whether nothing was accounted for meanwhile.
    is_steady: bool,
    /// Whether no other call was in progress and no other process took memory: then the figures are from one moment.
    is_settled: bool,
}

/// Looks at the devices if that is due. The calling thread must not be in a wrapped call.
#[inline]
pub(crate) fn look_if_due() {
    if intervals::take_due() && !is_forked() {
        record(look_at_all);
    }
}

/// Looks at every device that has a context.
fn look_at_all(state: &State) {
    let Some(driver) = driver() else { return };
    driver.relaxed(|| {
        for gpu in state.gpus() {
            if let Some(begun) = gpu.alive().look_within(Duration::ZERO) {
                look(state, (gpu, driver), begun, Reason::Interval);
            }
        }
    });
}

/// Looks at a device that has more accounted for than ever, in the call that caused it. That call has recorded
/// everything, so it no longer counts as in progress. If other threads have calls in progress, the next call to end
/// tries again.
#[inline]
pub(crate) fn note(state: &State, gpu: &Gpu) {
    if gpu.needs_look() && nested::apart(|| look_at_peak(state, gpu)).is_none() {
        intervals::want();
    }
}

/// Looks at this thread's device, if that has more accounted for than ever.
pub(crate) fn note_current() {
    record(|state| state.current_gpu().map(|gpu| note(state, gpu)));
}

#[cold]
fn look_at_peak(state: &State, gpu: &Gpu) -> Option<()> {
    let (driver, begun) = (driver()?, gpu.alive().look_within(PATIENCE)?);
    driver.relaxed(|| look(state, (gpu, driver), begun, Reason::Peak))
}

/// Reports a device's used memory when it refuses a request, so that the refusal can be explained.
pub(crate) fn look_at_refusal(state: &State, gpu: &Gpu) -> Option<()> {
    let (driver, begun) = (driver()?, gpu.alive().look_within(PATIENCE)?);
    driver.relaxed(|| look(state, (gpu, driver), begun, Reason::Refusal))
}

/// Reports the devices' used memory before the program ends.
pub(crate) fn last_look(state: &State) {
    for gpu in state.gpus() {
        look_at_end(state, gpu);
    }
}

/// Reports a device's used memory before its context ends.
pub(crate) fn look_at_end(state: &State, gpu: &Gpu) -> Option<()> {
    let driver = driver()?;
    driver.relaxed(|| look(state, (gpu, driver), gpu.alive().look(), Reason::End))
}

/// Reports a device's used memory, if the figures are from one moment or must suffice.
fn look(state: &State, (gpu, driver): (&Gpu, &Driver), mut look: Look<'_>, reason: Reason) -> Option<()> {
    let see = || {
        if reason != Reason::Peak {
            completions::complete(gpu, driver);
        }
        let mut sight = sight(gpu, driver, &look, reason)?;
        for _ in 1..TRIES {
            if sight.is_settled {
                break;
            }
            sight = self::sight(gpu, driver, &look, reason)?;
        }
        Some(sight)
    };
    // SAFETY: the context exists while the look lasts: a call that ends it waits.
    let sight = unsafe { driver.within(look.context?, see) }.flatten()?;
    if sight.is_asked {
        look.seen.set_processes(sight.processes, sight.unaccounted_bytes());
        if sight.is_steady {
            look.seen.no_process_bytes =
                sight.processes.map_or(0, |processes| processes.no_process_bytes(sight.used_bytes));
        }
    }
    if sight.is_settled {
        look.seen.settled();
        explain(gpu, &sight);
    } else {
        explain_unsettled(gpu, &sight, &mut look);
        let is_needed = match reason {
            Reason::Interval => look.seen.is_late(),
            Reason::Peak => look.seen.is_most(sight.used_bytes),
            Reason::Refusal | Reason::End => true,
        };
        if !is_needed && reason == Reason::Interval {
            // The call that is under way may be the only one.
            gpu.want_look();
        }
        if !is_needed {
            return None;
        }
    }
    let report = report(gpu, &sight, look.seen.no_process_bytes);
    // The last report is of the end, even if it equals the previous one.
    if look.seen.is_news(report) || reason == Reason::End {
        state.recorder().report_usage(gpu.ledger_device(), report);
        // What this thread does next is later than the report.
        let reported = Instant::now();
        while reported.elapsed() <= MICROSECOND {}
    }
    Some(())
}

/// Looks at the device of this thread's context.
fn sight(gpu: &Gpu, driver: &Driver, look: &Look<'_>, reason: Reason) -> Option<Sight> {
    let n_own = u64::from(matches!(reason, Reason::Refusal | Reason::End));
    let (calls, n_accounted) = (nested::quiet(n_own), gpu.n_accounted());
    let held = || (pools::reserved_bytes(gpu, driver, look), driver.graph_bytes(gpu.device));
    let (pools_bytes, graph_bytes) = held();
    let memory = driver.memory()?;
    let mut sight = Sight {
        used_bytes: memory.used_bytes,
        total_bytes: memory.total_bytes,
        pools_bytes,
        graph_bytes,
        booked_bytes: gpu.booked_bytes() + pools_bytes + graph_bytes,
        processes: None,
        is_asked: false,
        is_steady: n_accounted == gpu.n_accounted() && (pools_bytes, graph_bytes) == held(),
        is_settled: false,
    };
    match look.seen.processes(calls.map(|_| sight.unaccounted_bytes())) {
        Some(known) => sight.processes = known,
        None => {
            (sight.processes, sight.is_asked) = (others::processes(gpu), true);
            sight.is_steady &= driver.memory()? == memory;
        }
    }
    sight.is_settled = sight.is_steady && calls.is_some() && calls == nested::quiet(n_own);
    Some(sight)
}

fn report(gpu: &Gpu, sight: &Sight, no_process_bytes: u64) -> UsageReport {
    UsageReport {
        used_bytes: sight.used_bytes,
        total_bytes: sight.total_bytes,
        other_processes_bytes: sight.processes.map(|processes| processes.others_bytes),
        no_process_bytes,
        pool_slack_bytes: sight.pools_bytes.saturating_sub(gpu.pool_bytes()),
        page_rounding_bytes: gpu.page_rounding_bytes(),
        reserved_address_bytes: addresses::reserved_bytes(),
    }
}

impl Sight {
    /// Returns the used bytes that are not accounted for, including other processes'.
    fn unaccounted_bytes(&self) -> i64 {
        self.used_bytes.cast_signed() - self.booked_bytes.cast_signed()
    }

    /// Returns the bytes of this process that nothing explains, if at least a page is unexplained or missing. This
    /// process's own use is known only when the processes were queried.
    fn unexplained_bytes(&self) -> Option<i64> {
        let Processes { own_bytes, others_bytes } = self.processes?;
        let unexplained = match others_bytes {
            0 => self.unaccounted_bytes(),
            _ if self.is_asked => own_bytes.cast_signed() - self.booked_bytes.cast_signed(),
            _ => return None,
        };
        (unexplained.unsigned_abs() >= PAGE_BYTES).then_some(unexplained)
    }
}

/// Records the memory of graphs, and attributes unexplained memory to the driver, such as code that is loaded at its
/// first use.
fn explain(gpu: &Gpu, sight: &Sight) {
    set(gpu, Part::GraphMemory, sight.graph_bytes);
    explain_by_driver(gpu, sight.unexplained_bytes());
}

/// Attributes to the driver what was unexplained in each of several looks while calls were in progress.
fn explain_unsettled(gpu: &Gpu, sight: &Sight, look: &mut Look<'_>) {
    if sight.is_steady && sight.processes.is_some() {
        let least = look.seen.unsettled(sight.unexplained_bytes().unwrap_or(0));
        explain_by_driver(gpu, least.filter(|least| *least > 0));
    }
}

fn explain_by_driver(gpu: &Gpu, unexplained_bytes: Option<i64>) {
    match unexplained_bytes {
        Some(more) if more > 0 => add(gpu, Part::Other, more.cast_unsigned()),
        Some(less) => take(gpu, Part::Other, less.unsigned_abs()),
        None => {}
    }
}
