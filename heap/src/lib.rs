//! `libmemreel_heap.so`: reports what any program asks of `malloc` to `libmemreel_preload.so`.
