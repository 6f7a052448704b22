//! Facts of one process: its locks and forks, the signals of its threads, its rank, its machine, its resident memory,
//! times as text.

#[cfg(not(loom))]
#[cfg_attr(any(not(unix), miri), allow(dead_code, reason = "nothing forks"))]
pub(crate) mod fork;
pub(crate) mod guard;
pub(crate) mod host;
pub(crate) mod mask;
#[cfg(not(loom))]
pub(crate) mod memory;
pub(crate) mod notice;
pub mod own_memory;
pub(crate) mod pause;
pub(crate) mod rank;
pub(crate) mod sync;
pub(crate) mod time;
pub(crate) mod uncancelled;
pub(crate) mod wiped;
