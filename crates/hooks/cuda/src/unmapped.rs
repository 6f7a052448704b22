//! Physical memory that is not mapped anywhere: recorded at the calls that change it.
#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use super::{driver_memory::set, gpu::Gpu, parts::Part, state::State};

/// Records how much of each GPU's memory is not mapped now.
pub(crate) fn note_unmapped(state: &State) {
    state.gpus().for_each(note);
}

/// Of several threads one writes, until no other has asked for it: a lock would be held while events are written, which a
/// fork must not wait for.
fn note(gpu: &Gpu) {
    let changes = &gpu.n_unmapped_changes;
    if changes.fetch_add(1, Ordering::AcqRel) > 0 {
        return;
    }
    let mut seen = 1;
    loop {
        set(gpu, Part::Unmapped, gpu.unmapped_bytes());
        match changes.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(more) => seen = more,
        }
    }
}
