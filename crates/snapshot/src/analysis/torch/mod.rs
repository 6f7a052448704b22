//! What PyTorch's own tools show of a snapshot, which release wrote it, and which options its allocator has.

mod torch_options;
mod release;
mod stats;
mod trace;
mod folded;
mod compare;

pub use compare::{Comparison, compare};
pub use folded::{FoldedStack, Grouping, folded};
pub use release::Releases;
pub use stats::{FreeBytes, PAGE_BYTES, SegmentMap, SegmentStats, stats};
pub use torch_options::{ALLOCATOR_OPTIONS, AllocatorOption, SettingsReader, line_since, options};
pub(super) use torch_options::{limiting_option, n_options};
pub use trace::{Home, Naming, ShortName, TraceLine, TraceNames, trace_lines};
