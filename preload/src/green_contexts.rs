//! Green contexts: each keeps the primary context of its device alive, and takes memory of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memreel::integrate::hold_at_forks;
use once_cell::race::OnceBox;
use rustc_hash::FxHashMap;

use super::{
    contexts,
    driver::driver,
    driver_memory::{around, around_end},
    looks,
    parts::Part,
    state::record,
    types::{Handle, Ordinal, Status},
};

/// The device of each green context.
type Devices = Arc<Mutex<FxHashMap<usize, Ordinal>>>;

fn devices() -> MutexGuard<'static, FxHashMap<usize, Ordinal>> {
    static DEVICES: OnceBox<Devices> = OnceBox::new();
    let devices = DEVICES.get_or_init(|| {
        let devices = Devices::default();
        hold_at_forks(&devices);
        Box::new(devices)
    });
    devices.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes a green context that a call makes. The first context of a device may be one.
pub(crate) fn made(green: *mut Handle, device: Ordinal, call: &dyn Fn() -> Status) -> Status {
    let is_known = record(|state| state.gpu(device).is_some_and(|gpu| gpu.alive().has_context()));
    let status = match is_known {
        Some(false) => contexts::made_with(device, call, || driver()?.primary(device)),
        _ => around(Part::Context, call),
    };
    if status.is_success() && !green.is_null() {
        // SAFETY: after success the driver wrote the green context.
        let green = unsafe { *green }.addr();
        record(|_| devices().insert(green, device));
    }
    looks::note_current();
    status
}

/// Notes the end of a green context, with which the primary one may end.
pub(crate) fn ends(green: Handle, call: &dyn Fn() -> Status) -> Status {
    let Some(device) = record(|_| devices().remove(&green.addr())).flatten() else { return call() };
    let status = contexts::primary_ends(device, &|| around_end(Part::Context, call));
    if !status.is_success() {
        // It is there still, and may end later.
        record(|_| devices().insert(green.addr(), device));
    }
    status
}
