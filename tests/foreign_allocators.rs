//! `Recorded` around an allocator of collections, with the feature `allocator-api2`.

use std::alloc::Layout;

use allocator_api2::{
    alloc::{Allocator, Global},
    vec::Vec,
};
use memreel::{
    BlockState, DeviceId, Recorded,
    recorder::{Context, Recorder, Recording},
    snapshot::{Dialect, collect},
};

#[test]
fn an_allocator_of_collections_is_recorded() {
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all().context(Context::None));
    let heap = Recorded::new(Global, &recorder, DeviceId(0));
    let live = || -> std::vec::Vec<u64> {
        let snapshot = collect(&recorder, [&heap], Dialect::default());
        let blocks = snapshot.segments.iter().flat_map(|segment| &segment.blocks);
        blocks
            .filter(|block| block.state == Some(BlockState::ActiveAllocated))
            .map(|block| block.size)
            .collect()
    };
    let mut numbers: Vec<u32, _> = Vec::new_in(&heap);
    numbers.extend(0..1000);
    assert_eq!(live(), [4 * numbers.capacity() as u64]);
    drop(numbers);
    let empty = heap.allocate(Layout::new::<()>()).unwrap();
    // SAFETY: of this layout, freed once.
    unsafe { heap.deallocate(empty.cast(), Layout::new::<()>()) };
    assert!(live().is_empty());
    assert_eq!(heap.ledger().n_contradictions(), 0, "an allocation of 0 bytes is not recorded");
}
