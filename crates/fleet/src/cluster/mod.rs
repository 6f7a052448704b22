//! The tables on the machines of a cluster: Ballista plans and runs a query there, and our tables and scans travel as bytes.

mod accept;
mod message;
mod table_codec;
mod scan_codec;
mod session;
mod report;
mod scheduler;
mod executor;

pub use executor::{ExecutorOptions, run_executor};
pub use scheduler::{SchedulerOptions, run_scheduler};
pub(crate) use session::Cluster;

/// The largest message between a client, the scheduler and executors. A plan names every file, in some ten bytes each.
const MESSAGE_BYTES: u32 = 256 << 20;
