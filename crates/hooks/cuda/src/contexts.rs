//! Contexts: where a device's memory starts and ends.

use super::{
    completions,
    driver::driver,
    driver_memory::{add, take_all},
    ending,
    gpu::Gpu,
    gpus, intervals,
    looks::{look_at_end, note},
    others,
    parts::Part,
    pinned,
    seen::PAGE_BYTES,
    state::{State, record},
    types::{Handle, Ordinal, Status},
};

/// Returns whether a context is this thread's; null counts too.
pub(crate) fn is_current(context: Handle) -> bool {
    let is_known = |state: &'static State| {
        state.current_gpu().is_some_and(|gpu| gpu.alive().context() == Some(context.addr()))
    };
    context.is_null() || record(is_known) == Some(true)
}

/// Records a context that a call creates or finds.
pub(crate) fn made(device: Ordinal, context: *mut Handle, call: &dyn Fn() -> Status) -> Status {
    // Programs query the context of a device repeatedly.
    let is_known = record(|state| state.gpu(device).is_some_and(|gpu| gpu.alive().has_context()));
    if is_known != Some(false) {
        return call();
    }
    // SAFETY: after success the driver wrote the context.
    made_with(device, call, || (!context.is_null()).then(|| unsafe { *context }.expose_provenance()))
}

/// Records the first context of a device, which a call creates and `find` returns.
pub(crate) fn made_with(
    device: Ordinal,
    call: &dyn Fn() -> Status,
    find: impl FnOnce() -> Option<usize>,
) -> Status {
    let before = record(|state| others::used_bytes(state.gpu(device)?)).flatten();
    let status = call();
    if status.is_success() {
        record(|state| begin(state, device, find()?, before));
    }
    status
}

fn begin(state: &'static State, device: Ordinal, context: usize, before: Option<u64>) -> Option<()> {
    let gpu = state.gpu(device)?;
    if gpu.alive().set_context(Some(context)).is_some() {
        return None;
    }
    gpu.describe(state.recorder());
    // Other processes may create contexts meanwhile.
    let own_bytes =
        others::processes(gpu).filter(|found| found.others_bytes > 0).map(|found| found.own_bytes);
    let bytes = own_bytes.or_else(|| others::used_bytes(gpu)?.checked_sub(before?));
    // A context that another thread retains while this one releases it was found before, and is accounted for.
    let is_new = gpu.parts().bytes(Part::Context) == 0;
    if let Some(bytes) = bytes.filter(|bytes| is_new && *bytes >= PAGE_BYTES) {
        add(gpu, Part::Context, bytes);
    }
    ending::watch();
    intervals::begin();
    note(state, gpu);
    Some(())
}

/// Records that the primary context of a device may end.
pub(crate) fn primary_ends(device: Ordinal, call: &dyn Fn() -> Status) -> Status {
    let context = record(|state| {
        let gpu = state.gpu(device)?;
        look_at_end(state, gpu);
        gpu.alive().set_context(None)
    });
    let context = context.flatten();
    let status = call();
    record(|state| {
        let gpu = state.gpu(device)?;
        match driver()?.has_primary(device) {
            true => _ = gpu.alive().set_context(context),
            false => ended(gpu),
        }
        Some(())
    });
    status
}

/// Records that a context ends.
pub(crate) fn ends(context: Handle, call: &dyn Fn() -> Status) -> Status {
    let gpu = record(|state| {
        let gpu = state.gpus().find(|gpu| gpu.alive().context() == Some(context.addr()))?;
        look_at_end(state, gpu);
        gpu.alive().set_context(None).map(|_| gpu)
    });
    let gpu = gpu.flatten();
    let status = call();
    if let Some(gpu) = gpu {
        match status.is_success() {
            true => drop(record(|_| ended(gpu))),
            false => _ = gpu.alive().set_context(Some(context.addr())),
        }
    }
    status
}

/// Records that everything of a device is free.
fn ended(gpu: &Gpu) {
    let pending = gpu.pending().clear();
    completions::end(gpu, pending);
    gpu.alive().clear_pools();
    gpus::forget(gpu);
    pinned::forget(gpu);
    take_all(gpu);
}
