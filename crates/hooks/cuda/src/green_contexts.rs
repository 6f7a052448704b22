//! Green contexts: each keeps the primary context of its device alive, and takes memory itself.

use super::{
    contexts,
    driver::driver,
    driver_memory::{around, around_end},
    held::HeldMap,
    looks,
    parts::Part,
    state::record,
    types::{Handle, Ordinal, Status},
};

/// The device of each green context.
static DEVICES: HeldMap<usize, Ordinal> = HeldMap::new();

/// Records a green context that a call creates. It may be the first context of a device.
pub(crate) fn made(green: *mut Handle, device: Ordinal, call: &dyn Fn() -> Status) -> Status {
    let is_known = record(|state| state.gpu(device).is_some_and(|gpu| gpu.alive().has_context()));
    let status = match is_known {
        Some(false) => contexts::made_with(device, call, || driver()?.primary(device)),
        _ => around(Part::Context, call),
    };
    if status.is_success() && !green.is_null() {
        // SAFETY: after success the driver wrote the green context.
        let green = unsafe { *green }.addr();
        record(|_| DEVICES.lock().insert(green, device));
    }
    looks::note_current();
    status
}

/// Records the end of a green context, with which the primary one may end.
pub(crate) fn ends(green: Handle, call: &dyn Fn() -> Status) -> Status {
    let end = |device| contexts::primary_ends(device, &|| around_end(Part::Context, call));
    DEVICES.end(green.addr(), end).unwrap_or_else(call)
}
