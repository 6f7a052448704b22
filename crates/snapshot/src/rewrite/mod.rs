//! Derives snapshots from a snapshot: repaired, smaller, split or merged.
//!
//! `lifecycle` (forward) and `rewind` (backward) find the events that a trace lacks, and `settle` runs them until neither finds any;
//! `window` cuts for `slim`, and `past_segments` reconstructs the segments at its end.
//!
//! All functions work on the model and keep everything else: the order of keys, unknown keys, shared stacks. [`fix`]
//! repairs a dump on which the web viewer throws. [`Slim`] leaves out parts and keeps the state right. [`merge`] and
//! [`split`] work by device.

#![forbid(unsafe_code)]

mod category;
mod change;
mod edits;
mod entries;
mod entry_template;
mod fix;
mod frames;
mod lifecycle;
mod merge;
mod min_size;
mod named;
mod order;
mod origin;
mod past_segments;
mod rewind;
mod settle;
mod slim;
mod split;
mod structure;
mod trace;
mod trace_end;
mod window;

pub use change::Change;
pub(crate) use entry_template::EntryTemplate;
pub use fix::{Fixed, fix};
pub(crate) use merge::Tables;
pub use merge::{Merged, Part, merge};
pub use origin::{MergedDevice, SettingDifference};
pub(crate) use past_segments::{count, segments_at};
pub use slim::{Slim, Slimmed};
pub use split::{part, parts, split};
pub(crate) use trace::Trace;
pub use window::Window;
