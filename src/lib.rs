//! memreel is a flight recorder for the memory of GPUs and hosts. It records what allocators do, with the
//! stacks that caused it, and writes PyTorch memory snapshots, which <https://pytorch.org/memory_viz> shows.
//!
//! **You give** it your allocations: use memreel's caching allocator instead of your own, or report what your own
//! allocator does.
//!
//! **You get** a snapshot, in memory or as a file:
//!
//! - which block was live when, and which line of your program allocated it,
//! - how each segment is divided into blocks, and how much of it is unused,
//! - why a request failed although memory was reserved,
//! - answers as data: the stacks at the peak, leaks, why a request failed, a replay under other allocator settings.
//!
//! **Your duties** are few:
//!
//! - Build with line tables (`debug = "line-tables-only"` in the profile that you ship). Without them, frames
//!   have no file and no line.
//! - Switch recording on *before* the allocations that you want to see.
//! - If you report for your own allocator, report a free before the memory can be allocated again.
//! - Use a bounded set of scope names: `step`, not `step 17`. A recorder keeps every name that it has seen.
//!
//! **It is not for** watching C's `malloc`: only allocations through memreel's allocator or its [`Heap`], or reported
//! to it, are recorded. It does not capture Python frames by itself (an interpreter can add its frames, see
//! [`integrate::FrameSource`]). The host device needs Linux. An n-dimensional array type is included
//! ([`Buffer`]), but memreel is not a tensor library.
//!
//! # Recipes
//!
//! Each of these recipes is also a program in `examples/`, in the same order.
//!
//! ## Record and save
//!
//! The functions at the root use one [`Reel`] for the whole process, with the host as device 0. They have the
//! names of its methods.
//!
//! ```
//! use memreel::{Buffer, recorder::Recording};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("snapshot.pickle");
//! memreel::record_history(&Recording::all())?;
//! let weights = Buffer::<f32>::zeros(memreel::default_allocator()?, &[1000, 1000])?;
//! {
//!     let _scope = memreel::scope("forward")?;
//!     let activations = weights.map(|w| w.max(0.0))?;
//! }
//! memreel::save(&path)?; // drop the file on pytorch.org/memory_viz
//! # Ok::<(), memreel::Error>(())
//! ```
//!
//! ## Wrap your allocator
//!
//! A [`Ledger`](ledger::Ledger) takes the reports of any allocator and keeps the list of its blocks.
//!
//! ```
//! use memreel::{Address, StreamId, recorder::{Recording, Recorder}};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("snapshot.pickle");
//! let recorder = Recorder::new();
//! recorder.record_history(&Recording::all());
//! let ledger = recorder.ledger(0); // of device 0
//!
//! let block = vec![0_u8; 4096]; // from your allocator
//! let address = Address(block.as_ptr().addr() as u64);
//! ledger.alloc(address, 4096, StreamId::DEFAULT)?;
//! recorder.save(&path, [&ledger])?;
//! ledger.free(address)?; // before the memory can be allocated again
//! drop(block);
//! # assert_eq!(memreel::pickle::load(&path)?.segments.len(), 1);
//! # Ok::<(), memreel::Error>(())
//! ```
//!
//! [`Recorded`] reports to a ledger for you: it wraps an allocator of any kind. If your allocator already keeps such
//! a list, use [`integrate::Track`] and implement [`integrate::Inventory`].
//!
//! ## Save a snapshot when memory runs out
//!
//! ```
//! use memreel::{Reel, device::Simulated, recorder::Recording};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("oom.pickle");
//! let reel = Reel::builder()
//!     .device(Simulated::new(1 << 30))
//!     .history(Recording::all())
//!     .save_on_oom(&path)
//!     .build()?;
//! let error = reel.alloc(2 << 30).unwrap_err();
//! assert!(error.is_out_of_memory());
//! assert!(path.exists(), "the error's text names the file");
//! # Ok::<(), memreel::Error>(())
//! ```
//!
//! ## Read and analyse
//!
//! [`pickle::load`] reads snapshots of memreel and of PyTorch 2.0 to 2.15. The records are plain data;
//! [`analysis`] answers questions about them.
//!
//! ```
//! use memreel::{BlockState, Reel};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("snapshot.pickle");
//! # let reel = Reel::builder().build()?;
//! # let block = reel.alloc(1 << 20)?;
//! # reel.save(&path)?;
//! let snapshot = memreel::pickle::load(&path)?;
//! for segment in &snapshot.segments {
//!     let is_free = |block: &&memreel::snapshot::Block| block.state == Some(BlockState::Inactive);
//!     let free: u64 = segment.blocks.iter().filter(is_free).map(|block| block.size).sum();
//!     println!("{} of {} bytes are unused", free, segment.total_size);
//! }
//! # drop(block);
//! # Ok::<(), memreel::Error>(())
//! ```
//!
//! ## Gate in a test
//!
//! [`assert_peak!`] and [`assert_live!`] fail with a list of the stacks that have the memory. They also fail
//! if the history is not whole, unless a last argument `allow_partial` accepts that.
//!
//! ```
//! use memreel::{Reel, recorder::Recording};
//!
//! let reel = Reel::builder().history(Recording::all()).build()?;
//! drop(reel.alloc(1 << 20)?); // the code under test
//! memreel::assert_peak!(reel.snapshot(), 1 << 20); // at most 1 MiB in use at any time
//! memreel::assert_live!(reel.snapshot(), 0); // nothing is left
//! # Ok::<(), memreel::Error>(())
//! ```
//!
//! ## Record a GPU
//!
//! With the feature `cuda`, `device::Cuda` is the memory of an NVIDIA GPU and `Reel::cuda` allocates typed
//! memory for cudarc's streams; `examples/06_cuda.rs` launches a kernel on it.
//!
//! ```no_run
//! # #[cfg(feature = "cuda")]
//! # fn gpu() -> Result<(), Box<dyn std::error::Error>> {
//! use cudarc::driver::CudaContext;
//! use memreel::{Reel, device::Cuda, recorder::Recording};
//!
//! let stream = CudaContext::new(0)?.default_stream();
//! let reel = Reel::builder().device(Cuda::new(0)?).history(Recording::all()).build()?;
//! let x = reel.cuda(0)?.copy_from(&[1.0_f32; 1000], &stream)?;
//! assert_eq!(stream.clone_dtoh(&x)?.len(), 1000);
//! # Ok(())
//! # }
//! ```
//!
//! ## Record the heap
//!
//! With [`Heap`] as the program's allocator, the heap is a device of its own in the snapshots of the process.
//!
//! ```
//! #[global_allocator]
//! static HEAP: memreel::Heap = memreel::Heap::new();
//!
//! # fn main() -> memreel::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("heap.pickle");
//! memreel::record_history(&memreel::recorder::Recording::all())?;
//! let names: Vec<String> = (0..100).map(|n| n.to_string()).collect();
//! memreel::save(&path)?; // `memreel top --device 1 heap.pickle`
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! The modules in the order in which an allocation passes through them. Those from [`history`] to [`export`], and the
//! records of [`snapshot`](mod@snapshot), are the package `memreel-snapshot`, which can be used alone. `ARCHITECTURE.md` in the repository follows one allocation from the request to the byte in the file.
//!
//! | module | what it does |
//! |---|---|
//! | [`device`] | supplies memory: the host, a GPU, or a simulated device, with or without a limit |
//! | [`recorder`] | records events with their times, stacks and scopes, for any allocator |
//! | [`ledger`] | records the reports of an allocator that is not memreel's, and keeps the list of its blocks |
//! | [`trigger`] | writes snapshots at a signal, the exit, a panic, a time or a peak |
//! | [`integrate`] | connects allocators and interpreters that are not memreel's to a recorder |
//! | [`allocator`] | the caching allocator: PyTorch's rules for segments, blocks and streams |
//! | [`snapshot`](mod@snapshot) | the records of a snapshot, and how they are collected |
//! | [`history`] | what a trace means: final blocks, lives, scopes, and how far a file can be trusted |
//! | [`pickle`] | reads and writes snapshot files |
//! | [`validate`](mod@validate) | checks a file against the rules of the format |
//! | [`analysis`] | answers questions: the peak, top stacks, leaks, fragmentation, a failed request |
//! | [`rewrite`] | derives snapshots: smaller, repaired, merged |
//! | [`export`] | writes the formats of other tools |
//! | [`whatif`] | replays a recorded history under other allocator settings, also to explain a failed request |
//! | [`fit`] | predicts the peaks of a program at another size from recorded runs |
//!
//! # Cargo features
//!
//! | feature | what it adds | default |
//! |---|---|---|
//! | `allocator-api2` | [`Recorded`] around an `allocator_api2::Allocator` | off |
//! | `cuda` | NVIDIA devices through cudarc, which loads the driver at run time | off |
//! | `cuda-nvrtc` | cudarc's kernel compiler, for an example | off |
//!
//! The program `memreel` is the package `memreel-cli`, and the C interface is `memreel-capi`.

// docs.rs builds with a nightly compiler, which labels the items that need a feature.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, unused_imports, unreachable_pub, reason = "nothing is recorded there")
)]

// Rooms that need Linux are not compiled elsewhere, where memreel only reads; docs/windows.md lists them.
mod process;
pub mod device;
mod tape;
mod stack;
mod python;
pub mod recorder;
pub mod ledger;
mod past;
#[cfg(target_os = "linux")]
mod heap;
#[cfg(target_os = "linux")]
pub mod trigger;
pub mod allocator;
#[cfg(target_os = "linux")]
mod typed;
mod collect;
pub mod whatif;
pub mod fit;
#[cfg(target_os = "linux")]
mod reel;

/// The records of a snapshot, and how they are collected.
pub mod snapshot {
    #[doc(inline)]
    pub use crate::collect::{Dialect, TapeSnapshot, collect, collect_lazily};
    #[doc(inline)]
    pub use memreel_snapshot::model::*;
}

/// Derives snapshots: repaired, smaller, split, merged.
pub mod rewrite {
    #[doc(inline)]
    pub use crate::collect::Completed;
    #[doc(inline)]
    pub use memreel_snapshot::{join::merge_torch, rewrite::*};
}

#[doc(inline)]
pub use memreel_snapshot::{
    Action, Address, BlockState, DeviceId, Error, OomVerdict, OutOfMemory, PoolId, PoolKind, Result,
    Snapshot, StreamId, analysis, assert_live, assert_peak, export, history, pickle, validate,
};

#[doc(inline)]
pub use crate::allocator::{Allocation, CachingAllocator, Settings};
#[doc(inline)]
pub use crate::collect::{PackedTape, Recovered, RunNames, TapeProcess};
#[cfg(target_os = "linux")]
#[doc(inline)]
pub use crate::past::{Onlooker, SpaceMaker, TapeKeeper};
#[cfg(target_os = "linux")]
#[doc(inline)]
pub use crate::reel::{
    follower::{FollowedDevice, Follower, LiveSums},
    owned::owners_snapshot,
};
#[cfg(feature = "cuda")]
#[doc(inline)]
pub use crate::typed::cuda;
#[cfg(target_os = "linux")]
#[doc(inline)]
pub use crate::{
    heap::{Allocate, Heap, Recorded},
    reel::{
        Builder, Reel, integrate,
        process::{
            alloc, default_allocator, default_reel, dump_on, empty_cache, max_memory_allocated,
            max_memory_reserved, mem_get_info, memory_allocated, memory_reserved, memory_summary,
            record_history, reset_accumulated_memory_stats, reset_peak_memory_stats, save, save_on_oom,
            scope, set_memory_fraction, snapshot, stats,
        },
    },
    typed::buffer::{Buffer, Element},
};

/// Compiles the README's code blocks in `cargo test --doc`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Compiles the code blocks of the page about Rust.
#[cfg(doctest)]
#[doc = include_str!("../docs/rust.md")]
struct RustPage;

/// Compiles the code blocks of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../docs/crate.md")]
struct Crate;

/// Compiles the code blocks of the page on the heap.
#[cfg(doctest)]
#[doc = include_str!("../docs/heap.md")]
struct OfHeap;

/// Compiles the Rust code of the page on triggers.
#[cfg(doctest)]
#[doc = include_str!("../docs/triggers.md")]
struct TriggersPage;

/// Compiles the Rust code of the page on Python frames.
#[cfg(doctest)]
#[doc = include_str!("../docs/python.md")]
struct PythonPage;

/// Compiles the Rust code of the page on tapes.
#[cfg(doctest)]
#[doc = include_str!("../docs/tape.md")]
struct TapePage;

/// Compiles the Rust code of the page on GPUs.
#[cfg(all(doctest, feature = "cuda"))]
#[doc = include_str!("../docs/gpu.md")]
struct Gpu;
