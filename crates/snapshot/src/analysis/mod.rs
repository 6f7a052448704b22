//! Questions about a snapshot, with plain results.
//!
//! [`DeviceHistory`] reconstructs the allocator's state at any moment of one device's recorded history.
//! Its methods answer the questions that need a history. The functions of this module need only a snapshot.
//! Nothing here prints: the program's commands print these results.
//!
//! Results serialise with serde. Those that refer to a stack do so by its index in the snapshot, and
//! [`WithFrames`] adds the frames.
//!
//! Questions about sites add up the blocks of stacks that look the same: those whose identifying frames
//! ([`ShownFrames::identifying`]) have the same names, files and lines. Other frames and further keys of a
//! frame make no difference.
//!
//! ```
//! use memreel::{DeviceId, Reel, analysis::{By, DeviceHistory}, recorder::Recording};
//!
//! let reel = Reel::builder().history(Recording::all()).build()?;
//! let _kept = reel.alloc(1000)?;
//! drop(reel.alloc(3000)?);
//!
//! let snapshot = reel.snapshot();
//! let history = DeviceHistory::new(&snapshot, DeviceId(0));
//! let peak = history.peak();
//! assert_eq!(peak.active_bytes, 4000);
//! let by_stack = history.top(peak.moment, By::Stack);
//! assert_eq!(by_stack.iter().map(|group| group.bytes).sum::<u64>(), 4000);
//! assert_eq!(history.leaks().len(), 1);
//! # Ok::<(), memreel::Error>(())
//! ```
#![forbid(unsafe_code)]

mod address;
mod lives;
mod names;
mod levels;
mod run_peak;
mod segments;
mod shared;
mod state;
mod histories;
mod layout;
mod viewer_filter;
mod function_name;
mod known_owners;
mod role;
mod owner;
mod holdings;
mod rounded;
mod owner_groups;
mod owner_row;
mod made;
mod mapped;
mod resident;
mod owner_part;
mod resident_table;
mod owner_table;
mod run_owners;
mod frames;
mod site;
mod stack_numbers;
mod same_calls;
mod site_finding;
mod site_key;
mod series;
mod top;
mod allocated;
mod earlier_peak;
mod call_tree;
mod growth;
mod pace;
mod leaks;
mod new_blocks;
mod captured;
mod pools;
pub mod ranks;
mod churn;
mod claim;
mod segment_sum;
mod stream_use;
mod idle_streams;
mod reserved_growth;
mod waiting;
mod wanted;
mod pinned;
mod pool_use;
mod fragmentation;
mod timeline;
mod torch_options;
pub mod oom;
mod call;
mod release;
mod moved;
mod other_script;
mod diff;
mod gate;
mod stats;
mod trace;
mod folded;
mod compare;
mod with_frames;

pub use crate::words::{Bytes, paths::base_name};
pub use address::{AddressChange, AddressEvent, AddressHistory};
pub use call::Call;
pub use call_tree::{Branch, MAX_CALLS};
pub use churn::ChurnSite;
pub use claim::{Claim, Doubt};
pub use compare::{Comparison, compare};
pub use diff::GroupChange;
pub use folded::{FoldedStack, Grouping, folded};
pub use fragmentation::{Fragmentation, IdlePool};
pub use frames::{MarkedFrame, NO_STACK, ShownFrames};
pub use function_name::FunctionName;
pub use gate::{Check, Figures, Limits, Measure};
pub use growth::{Growth, GrowthKind, Growths, RepeatedBy};
pub use histories::Histories;
pub use idle_streams::IdleStreams;
pub use layout::{Gap, SegmentLayout};
pub use leaks::{LeakGrowth, LeakSite};
pub use made::Made;
pub use mapped::MappedStack;
pub use new_blocks::NewBlocks;
pub(crate) use owner::is_mark;
pub use owner::{ALIAS, IMPORTED, MANAGED, Owners, PROGRAM, UNKNOWN, is_own};
pub use owner_groups::OwnerPeak;
pub use owner_row::{DeviceOwners, HostFigures, OwnerRow, OwnerStack, RowKind};
pub use owner_table::owners;
pub use pace::Pace;
pub use pinned::PinnedSegment;
pub use pool_use::{PoolOf, PoolUse};
pub use pools::Pools;
pub use release::Releases;
pub use reserved_growth::ReservedGrowth;
pub(crate) use role::disguised;
pub use run_owners::RunOwners;
pub use run_peak::EarlierPeak;
pub use segment_sum::SegmentSum;
pub use segments::SegmentRange;
pub use series::{Series, SeriesSite};
pub use site::{BlockNames, Site};
pub use site_finding::SiteFinding;
pub use stack_numbers::StackNumbers;
pub use state::{DeviceHistory, Totals, devices};
pub use stats::{FreeBytes, PAGE_BYTES, SegmentMap, SegmentStats, stats};
pub use stream_use::StreamUse;
pub use timeline::{Axis, Point};
pub use top::{By, Group};
pub use torch_options::{ALLOCATOR_OPTIONS, AllocatorOption, SettingsReader, line_since, options};
pub use trace::{Home, Naming, ShortName, TraceLine, TraceNames, trace_lines};
pub use viewer_filter::is_shown;
pub use waiting::Waiting;
pub use wanted::Wanted;
pub use with_frames::{AtSite, SiteFrames, WithFrames};
