//! The loop as a library for Python. It allocates from the system.

mod pairs;

/// Returns nanoseconds per pair.
#[unsafe(no_mangle)]
pub extern "C" fn slowest_ns(n_threads: usize, is_quick: bool) -> f64 {
    pairs::slowest_ns(n_threads, if is_quick { pairs::Load::QUICK } else { pairs::Load::FULL })
}
