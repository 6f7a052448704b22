//! The wrapped functions of the driver: one line for each, which names what is recorded.

pub(crate) mod wrapped;
mod memory;
mod stream_ordered;
mod mapped;
mod multicast;
mod host;
mod arrays;
mod shared;
mod side_effects;
mod waits;
mod capture;

use super::entry::Entry;

/// The tables of all kinds of calls.
pub(crate) const TABLES: [&[&Entry]; 10] = [
    memory::TABLE,
    stream_ordered::TABLE,
    mapped::TABLE,
    multicast::TABLE,
    host::TABLE,
    arrays::TABLE,
    shared::TABLE,
    side_effects::TABLE,
    waits::TABLE,
    capture::TABLE,
];
