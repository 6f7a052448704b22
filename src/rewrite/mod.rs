//! Makes another snapshot of a snapshot: repaired, smaller, divided or joined.
//!
//! All functions work on the model and keep everything else: the order of keys, unknown keys, shared
//! stacks. [`fix`] repairs a dump on which the web viewer throws. [`Slim`] leaves out parts and keeps the
//! state right. [`merge`] and [`split`] join and divide by device. [`merge_torch`] joins the driver's segments with PyTorch's
//! blocks. [`Completed`] adds to a recording what its
//! options left out and viewers need.

#![forbid(unsafe_code)]

mod category;
mod change;
mod completed;
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
mod torch_blocks;
mod trace;
mod trace_end;
mod window;

pub use change::Change;
pub use completed::Completed;
pub use fix::{Fixed, fix};
pub use merge::{Merged, Part, merge};
pub use origin::{MergedDevice, SettingDifference};
pub use slim::{Slim, Slimmed};
pub use split::{part, parts, split};
pub use torch_blocks::merge_torch;
pub use window::Window;
