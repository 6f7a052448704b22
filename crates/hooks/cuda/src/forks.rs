//! The functions for `libmemreel_heap.so`, which comes before the C library's list of fork handlers.

use memreel::integrate::{self, AllocatorHandlers};

/// Registers memreel's own handlers.
#[unsafe(no_mangle)]
extern "C" fn memreel_forks_begin() {
    integrate::begin_handlers();
}

/// Registers the handlers of the allocator below memreel.
#[unsafe(no_mangle)]
extern "C" fn memreel_forks_allocator(
    prepare: Option<extern "C" fn()>,
    parent: Option<extern "C" fn()>,
    child: Option<extern "C" fn()>,
) {
    integrate::register_allocator(AllocatorHandlers { prepare, parent, child });
}
