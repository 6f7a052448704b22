//! Times a pair of malloc and free: what recording the heap adds, on one thread and on two, beside other profilers.
//!
//! ```text
//! cargo bench --bench heap                    a table
//! cargo bench --bench heap -- --json          one JSON object a line
//! cargo bench --bench heap -- --quick         few pairs, to see that it works
//! ```
//!
//! Each case runs in a process of its own, because a process has one allocator and one history: this program starts
//! itself again. Its allocator passes requests to the system or to a `memreel::Heap`, by a number that is read at each
//! request in all cases, so that it is in no difference.
//!
//! | case | what is timed |
//! |---|---|
//! | `system` | the system's allocator alone |
//! | `heap_off` | a `Heap` that does not record |
//! | `heap_none` | recording without stacks |
//! | `heap_alloc` | recording with stacks, 20 frames deep, at each allocation |
//! | `heap_native` | recording with stacks, 20 frames deep, at each allocation and each free |
//! | `heap_sampled` | the same, of one byte in 512 KiB |
//! | `stop_alone` | the longest pair in a second, beside 10,000,000 live blocks that are recorded without stacks |
//! | `stop_in_dump` | the same, while another thread takes a snapshot of them |
//! | `dhat` | the crate dhat (built from `dhat/`, which needs a network once) |
//! | `heaptrack` | `system` under heaptrack |
//! | `memray_native` | the same loop, called from Python under `memray run --native`; `MEMREEL_BENCH_PYTHON` names a Python that has memray |
//!
//! A figure is the median of 31 batches, and `added_ns` its difference to the same loop without a profiler. A peer that
//! is not installed gets a line that says so.

mod dump;
mod pairs;
mod peers;
mod report;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    env,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
};

use memreel::{
    Heap,
    recorder::{Context, Recording},
};

use dump::{Other, longest_stop_us, n_blocks};
use pairs::{Load, slowest_ns};
use report::{Reporter, figure_of};

/// The allocator of this program.
struct Switched {
    heap: Heap,
    is_heap: AtomicBool,
}

#[global_allocator]
static ALLOCATOR: Switched = Switched { heap: Heap::new(), is_heap: AtomicBool::new(false) };

// SAFETY: both allocators are around the system's, so that either can free the blocks of the other; the switch is
// changed before anything is recorded.
unsafe impl GlobalAlloc for Switched {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        unsafe {
            match self.is_heap.load(Ordering::Relaxed) {
                true => self.heap.alloc(layout),
                false => System.alloc(layout),
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe {
            match self.is_heap.load(Ordering::Relaxed) {
                true => self.heap.dealloc(block, layout),
                false => System.dealloc(block, layout),
            }
        }
    }
}

/// What a child process measures.
const CASES: [&str; 6] = ["system", "heap_off", "heap_none", "heap_alloc", "heap_native", "heap_sampled"];

/// The same of the longest stop of a thread.
const STOPS: [&str; 2] = ["stop_alone", "stop_in_dump"];

fn history_of(case: &str) -> Option<Recording> {
    match case {
        "heap_none" | "stop_alone" | "stop_in_dump" => Some(Recording::all().context(Context::None)),
        "heap_alloc" => Some(Recording::all().context(Context::Alloc)),
        "heap_native" => Some(Recording::all()),
        "heap_sampled" => Some(Recording::all().sample_every(512 << 10)),
        _ => None,
    }
}

/// Measures one case in this process and prints nanoseconds per pair, or microseconds of a stop.
fn measure(case: &str, n_threads: usize, load: Load) {
    ALLOCATOR.is_heap.store(case != "system", Ordering::Relaxed);
    if let Some(history) = history_of(case) {
        memreel::record_history(&history).expect("a reel of the host");
    }
    let figure = match case {
        "stop_alone" => longest_stop_us(load, Other::Sleeps),
        "stop_in_dump" => longest_stop_us(load, Other::Dumps),
        _ => slowest_ns(n_threads, load),
    };
    println!("{figure:.2}");
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let load = if arguments.iter().any(|argument| argument == "--quick") { Load::QUICK } else { Load::FULL };
    if let [child, case, n_threads, ..] = &arguments[..]
        && child == "--child"
    {
        return measure(case, n_threads.parse().expect("a number of threads"), load);
    }
    let reporter = Reporter { is_json: arguments.iter().any(|argument| argument == "--json") };
    let program = env::current_exe().expect("this program");
    let child = |case: &str, n_threads: usize| {
        let mut child = Command::new(&program);
        child.args(["--child", case, &n_threads.to_string()]);
        child.args(load.argument());
        child
    };
    for case in STOPS {
        reporter.report_stop(case, n_blocks(load), figure_of(&mut child(case, 1)));
    }
    for n_threads in [1, 2] {
        let child = |case: &str| child(case, n_threads);
        let mut base_ns = f64::NAN;
        for case in CASES {
            let figure = figure_of(&mut child(case));
            if case == "system" {
                base_ns = *figure.as_ref().unwrap_or(&f64::NAN);
            }
            reporter.report(case, n_threads, figure, base_ns);
        }
        reporter.report("dhat", n_threads, peers::dhat(n_threads, load), base_ns);
        reporter.report("heaptrack", n_threads, peers::heaptrack(&child("system")), base_ns);
        let (plain, under_memray) = peers::memray(n_threads, load);
        reporter.report("python", n_threads, plain.clone(), f64::NAN);
        reporter.report("memray_native", n_threads, under_memray, plain.unwrap_or(f64::NAN));
    }
}
