//! The wrapped functions of the driver: one line for each, which names what is recorded.

mod wrapped;
mod memory;
mod stream_ordered;
mod mapped;
mod host;
mod arrays;
mod shared;
mod side_effects;
mod capture;
mod addresses;

use std::ffi::{CStr, c_int};

use super::entry::Entry;

/// The tables of all rooms.
const TABLES: [&[&Entry]; 9] = [
    memory::TABLE,
    stream_ordered::TABLE,
    mapped::TABLE,
    host::TABLE,
    arrays::TABLE,
    shared::TABLE,
    side_effects::TABLE,
    capture::TABLE,
    addresses::TABLE,
];

fn entries() -> impl Iterator<Item = &'static Entry> {
    TABLES.into_iter().flatten().copied()
}

/// Returns the wrapped function with an exported name.
pub(crate) fn by_symbol(symbol: &CStr) -> Option<&'static Entry> {
    entries().find(|entry| entry.symbol == symbol)
}

/// Returns the wrapped function that a name means in a version of CUDA.
pub(crate) fn by_name(name: &CStr, version: c_int, is_per_thread: bool) -> Option<&'static Entry> {
    let text = name.to_str().ok()?;
    let named = entries().filter(|entry| entry.name == text && entry.since <= version);
    // The twin, where there is one.
    let best = named.max_by_key(|entry| (entry.is_per_thread == is_per_thread, entry.since));
    best.filter(|entry| !entry.is_per_thread || is_per_thread).or_else(|| by_symbol(name))
}
