//! Allocates from several threads into a tape until it is killed, and prints what was recorded.
//!
//! `cargo run --release --example crash -- --tape run.tape` prints `acknowledged THREAD N` whenever the record calls of
//! the first N allocations of a thread have returned. Kill it, and `memreel recover run.tape -o snapshot.pickle` has
//! all of them. `--ring N` sets how many events are kept, `--abort N` ends the program by `abort` after N allocations,
//! `--fill` until the host has no memory for it. With `--kept-elsewhere` another process may keep the tape.

use std::{
    io::Write,
    process,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use memreel::{Reel, device::Simulated, recorder::Recording};

pub(crate) const N_THREADS: u64 = 8;
/// A size shows its thread and its number, up to this one.
pub(crate) const N_SIZES: u64 = 1 << 16;
/// The blocks that a thread has at a time, and those of them that it never frees: its first ones.
pub(crate) const N_LIVE: usize = 50;
pub(crate) const N_KEPT: usize = 5;

/// Returns which of its blocks a thread frees after an allocation.
pub(crate) fn freed(number: u64) -> usize {
    N_KEPT + number as usize % (N_LIVE - N_KEPT)
}

/// Returns the size of a thread's allocation: no two threads have the same.
pub(crate) fn size_bytes(thread: u64, number: u64) -> u64 {
    512 * ((number % N_SIZES) * N_THREADS + thread + 1)
}

struct Options {
    tape: String,
    ring: usize,
    abort_after: u64,
    fill: bool,
    kept_elsewhere: bool,
}

pub(crate) fn main() -> Result<(), memreel::Error> {
    let options = options();
    let history = Recording::all().max_entries(options.ring).tape(&options.tape);
    let history = if options.kept_elsewhere { history.kept_elsewhere() } else { history };
    let reel = Reel::builder().device(Simulated::new(1 << 46)).history(history).build()?;
    let (output, n_all) = (Mutex::new(std::io::stdout()), AtomicU64::new(0));
    let fill = Mutex::new(Vec::new());
    let work = |thread: u64| {
        let mut live = Vec::new();
        for number in 0.. {
            live.push(reel.alloc(size_bytes(thread, number)).expect("the simulated device is large"));
            if live.len() > N_LIVE {
                live.remove(freed(number));
            }
            if options.fill {
                fill.lock().unwrap().push(vec![1_u8; 1 << 20]);
            }
            if number % 64 == 63 {
                let mut output = output.lock().unwrap();
                writeln!(output, "acknowledged {thread} {}", number + 1).expect("someone reads");
                output.flush().expect("someone reads");
            }
            if n_all.fetch_add(1, Ordering::Relaxed) + 1 == options.abort_after {
                process::abort();
            }
        }
    };
    thread::scope(|scope| (0..N_THREADS).for_each(|thread| drop(scope.spawn(move || work(thread)))));
    Ok(())
}

/// Reads the command line.
fn options() -> Options {
    let mut options =
        Options { tape: String::new(), ring: 1_000_000, abort_after: 0, fill: false, kept_elsewhere: false };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|text| text.parse().ok()).unwrap_or_else(|| usage());
        match &*arg {
            "--ring" => options.ring = number() as usize,
            "--abort" => options.abort_after = number(),
            "--fill" => options.fill = true,
            "--kept-elsewhere" => options.kept_elsewhere = true,
            "--tape" => options.tape = args.next().unwrap_or_else(|| usage()),
            _ => usage(),
        }
    }
    if options.tape.is_empty() { usage() } else { options }
}

fn usage() -> ! {
    eprintln!("usage: crash --tape FILE [--ring EVENTS] [--abort ALLOCATIONS] [--fill] [--kept-elsewhere]");
    process::exit(2)
}
