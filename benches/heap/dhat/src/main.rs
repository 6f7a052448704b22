//! The loop of the bench `heap` under the crate dhat: memreel-bench-dhat THREADS [--quick].

#[path = "../../pairs.rs"]
mod pairs;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let n_threads = arguments[1].parse().expect("a number of threads");
    let is_quick = arguments.iter().any(|argument| argument == "--quick");
    // A pair takes microseconds.
    let few = pairs::Load { n_batches: 7, n_pairs: 20_000 };
    let profiler = dhat::Profiler::builder().file_name("dhat-heap.json").build();
    let ns = pairs::slowest_ns(n_threads, if is_quick { pairs::Load::QUICK } else { few });
    drop(profiler);
    println!("{ns:.2}");
}
