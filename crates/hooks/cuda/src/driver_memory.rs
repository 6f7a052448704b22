//! Measures memory that the driver takes for itself, without a call that allocates.
//!
//! It is the increase in a device's used memory during a call, minus what was accounted for meanwhile. Each part is a
//! segment of one block at an address that no device has.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use memreel::{Address, StreamId};

use super::{
    driver::{Driver, driver},
    gpu::{Account, Gpu},
    marks::marked,
    others::processes,
    parts::Part,
    pools,
    seen::PAGE_BYTES,
    state::record,
    types::Status,
};

/// The next address for memory without one: the driver's own, and arrays. No device has addresses of 2^52 and more, and
/// viewers compute with numbers below 2^53.
static NEXT_ADDRESS: AtomicU64 = AtomicU64::new(1 << 52);

/// Measures a call that may make the driver take memory.
pub(crate) fn around(part: Part, call: &dyn Fn() -> Status) -> Status {
    measured(call, |gpu, grown_bytes| {
        if grown_bytes >= PAGE_BYTES.cast_signed() {
            add(gpu, part, grown_bytes.cast_unsigned());
        }
    })
}

/// Measures a call that may make the driver release memory.
pub(crate) fn around_end(part: Part, call: &dyn Fn() -> Status) -> Status {
    measured(call, |gpu, grown_bytes| {
        if grown_bytes <= -PAGE_BYTES.cast_signed() {
            take(gpu, part, grown_bytes.unsigned_abs());
        }
    })
}

fn measured(call: &dyn Fn() -> Status, look: impl FnOnce(&Gpu, i64)) -> Status {
    let before = record(|state| {
        let (gpu, driver) = (state.current_gpu()?, driver()?);
        let is_shared = gpu.is_shared();
        Some((gpu, driver, is_shared, unaccounted_bytes(gpu, driver, is_shared)))
    });
    let status = call();
    let Some((gpu, driver, is_shared, before)) = before.flatten() else { return status };
    record(|_| {
        if let (Some(before), Some(after)) = (before, unaccounted_bytes(gpu, driver, is_shared)) {
            look(gpu, after - before);
        }
    });
    status
}

/// Returns the used bytes of this thread's device that are not accounted for. This includes those of other processes,
/// unless the device is shared and its processes are visible.
fn unaccounted_bytes(gpu: &Gpu, driver: &Driver, is_shared: bool) -> Option<i64> {
    // A program may load code while it captures a stream.
    driver.relaxed(|| {
        let look = gpu.alive().look();
        let used_bytes = if is_shared { processes(gpu)?.own_bytes } else { driver.memory()?.used_bytes };
        let of_pools = pools::reserved_bytes(gpu, driver, &look) + driver.graph_bytes(gpu.device);
        let booked_bytes = gpu.booked_bytes() + of_pools;
        Some(used_bytes.cast_signed() - booked_bytes.cast_signed())
    })
}

/// Returns an address that no device has, with room for these bytes.
pub(crate) fn next_address(bytes: u64) -> u64 {
    // Relaxed: the addresses only have to differ.
    NEXT_ADDRESS.fetch_add(bytes.next_multiple_of(PAGE_BYTES) + PAGE_BYTES, Ordering::Relaxed)
}

/// Records that the driver took memory.
pub(crate) fn add(gpu: &Gpu, part: Part, bytes: u64) {
    let address = next_address(bytes);
    gpu.parts().all.push((part, address, bytes));
    let alloc = || gpu.ledger().alloc(Address(address), bytes, StreamId::DEFAULT);
    let _counted = marked(Some(part.mark()), alloc);
    gpu.account(account(part), bytes, 1);
}

/// The driver reports the memory of graphs by itself, like that of pools; what is not mapped is accounted for by its handle.
fn account(part: Part) -> Account {
    if matches!(part, Part::GraphMemory | Part::Unmapped) { Account::Outside } else { Account::Part }
}

/// Records how much memory a part has now.
pub(crate) fn set(gpu: &Gpu, part: Part, bytes: u64) {
    let before = gpu.parts().bytes(part);
    match bytes.checked_sub(before) {
        Some(0) => {}
        Some(more) => add(gpu, part, more),
        None => take(gpu, part, before - bytes),
    }
}

/// Records that the driver released memory: the latest of a part first. A partly released one is recorded again with
/// what is left.
pub(crate) fn take(gpu: &Gpu, part: Part, bytes: u64) {
    let mut left = bytes;
    while left > 0 {
        let mut parts = gpu.parts();
        let Some(at) = parts.all.iter().rposition(|(of, ..)| *of == part) else { return };
        let (_, address, size) = parts.all.remove(at);
        drop(parts);
        let _counted = gpu.ledger().free(Address(address));
        gpu.account(account(part), size, -1);
        if size > left {
            add(gpu, part, size - left);
        }
        left = left.saturating_sub(size);
    }
}

/// Records that the driver released everything: the device's context has ended.
pub(crate) fn take_all(gpu: &Gpu) {
    for part in [Part::Context, Part::Module, Part::Graph, Part::GraphMemory, Part::Unmapped, Part::Other] {
        take(gpu, part, u64::MAX);
    }
}
