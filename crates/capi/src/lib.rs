//! The C interface, `libmemreel.so`: memreel's allocator for PyTorch and CuPy, its recorder for any program.
//!
//! `schema/memreel.h` documents each function. Three rules hold for all of
//! them: no panic crosses the border; an address is looked up in memreel's own
//! map, whatever size, stream or device the caller passes with it; and
//! [`memreel_error`] returns the text of a failure.

mod border;
mod cupy;
mod figures;
mod filters;
mod ledgers;
mod options;
mod pools;
mod record;
mod state;
mod thrown;
mod torch;

pub use border::memreel_error;
pub use cupy::{memreel_cupy_free, memreel_cupy_malloc, memreel_cupy_malloc_on};
pub use figures::{
    memreel_is_recording, memreel_lost_events, memreel_memory_fraction, memreel_reset_accumulated_stats,
    memreel_reset_peak_stats, memreel_stats_json,
};
pub use pools::{
    memreel_begin_allocate_to_pool, memreel_create_pool, memreel_empty_pool, memreel_end_allocate_to_pool,
    memreel_pool_use_count, memreel_release_pool,
};
pub use record::{
    OomObserver, memreel_annotate, memreel_check_python, memreel_dump, memreel_dump_on, memreel_on_oom,
    memreel_record, memreel_record_alloc, memreel_record_free, memreel_record_oom,
    memreel_record_segment_alloc, memreel_record_segment_free, memreel_save_on_oom, memreel_scope_begin,
    memreel_scope_end,
};
pub use torch::{
    memreel_base_allocation, memreel_empty_cache, memreel_free, memreel_init, memreel_malloc,
    memreel_record_stream, memreel_set_memory_fraction,
};
