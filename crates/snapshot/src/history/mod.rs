//! What the trace and the segments of one device mean: lives of blocks, ranges, scopes, and how far to trust them.
//!
//! Blocks have a requested size, a stack and an address in every layout: where PyTorch 2.0 wrote a
//! `history` instead, they are read from it when the block is built, so that nothing here looks at
//! layouts.
#![forbid(unsafe_code)]

// Everything that reads traces uses these, and keeps only its own policy:
//
// | question | answer |
// | --- | --- |
// | what does this entry do to the block at its address? | `Forward`, with a `Contradiction` where it cannot |
// | what was there before this entry? | `backward`, with an `Obstacle` where it cannot be undone |
// | which blocks are in use at the end, and where? | `FinalState`, `active_blocks` |
// | which range is an address in? | `Ranges` |
// | which blocks are in use at one point of a walk? | `Live` |
// | which requests does one call make? | `OpenCall` |
// | which scope is this entry in? | `Scopes`, `scope_pairs`, `step_of` |
// | which segments and annotations does this device have? | `ByDevice` |
// | are these texts equal? | `TextIds` |
// | are these frames one call to a reader? | `FrameIds` |
// | does a free have the stack of its allocation? | `FreeStacks` |
// | which private pool is it in? | `pool_of_entry` |
// | are the entries in order? | `disorder` |
// | when was this entry? | `Times` |
// | how much was reserved at the start? | `reserved_at_start` |
// | why is there no history? | `Absence` |
// | how far can the figures be trusted? | `Trust` |

mod absence;
mod by_device;
mod calls;
mod life;
mod live;
mod ranges;
mod order;
mod reserved;
mod final_state;
mod forward;
mod free_stacks;
mod backward;
mod runs;
mod scope_pairs;
mod scope_path;
mod scope_spans;
mod scopes;
mod frame_ids;
mod text_ids;
mod times;
mod confidence;
mod trust;

pub use absence::Absence;
pub(crate) use backward::{DeviceRange, Origin, final_ranges, segment_obstacle};
pub(crate) use by_device::places;
pub use confidence::Confidence;
pub(crate) use final_state::{active_blocks, pool_id};
pub(crate) use forward::{Displaced, LifeIndex, Spot, State};
pub(crate) use frame_ids::FrameIds;
pub(crate) use free_stacks::FreeStacks;
pub use life::{Life, Moment};
pub(crate) use ranges::Layers;
pub(crate) use runs::Runs;
pub(crate) use scope_pairs::{scope_number, scope_pairs, scopes_named};
pub use scope_path::ScopePath;
pub(crate) use scope_path::is_in_scope;
pub use scope_spans::{ScopeSpan, step_of};
pub use scopes::{ScopeError, Scopes};
pub(crate) use text_ids::TextIds;
pub(crate) use times::{Times, time_span};
pub use trust::Trust;

// What the package memreel needs to collect and to replay, without a promise to others.
#[doc(hidden)]
pub use backward::{Joining, Obstacle, insert_free, undo_segment_event};
#[doc(hidden)]
pub use by_device::ByDevice;
#[doc(hidden)]
pub use calls::{CallPaths, OpenCall};
#[doc(hidden)]
pub use final_state::{FinalBlock, FinalState, pool_of_entry};
#[doc(hidden)]
pub use forward::{Contradiction, Forward, Step};
#[doc(hidden)]
pub use live::{Extent, Live, Places};
#[doc(hidden)]
pub use order::disorder;
#[doc(hidden)]
pub use ranges::{RangeValue, Ranges, Span};
#[doc(hidden)]
pub use reserved::{change, reserved_at_start, reserved_peak};
