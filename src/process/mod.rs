//! Facts of one process: its locks, its forks, what it is told.

#[cfg(not(loom))]
#[cfg_attr(any(not(unix), miri), allow(dead_code, reason = "nothing forks"))]
pub(crate) mod fork;
pub(crate) mod guard;
pub(crate) mod host;
pub(crate) mod mask;
pub(crate) mod notice;
pub(crate) mod rank;
pub(crate) mod sync;
pub(crate) mod time;
