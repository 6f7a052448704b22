//! A tape has every event that was acknowledged before its process was killed.
//!
//! The child is `examples/crash.rs`, which is started by starting this program again with an argument. `MEMREEL_KILLS` says
//! how often it is killed, and `MEMREEL_RECOVERED` names a folder for the recovered snapshots.
#![forbid(unsafe_code)]

#[path = "../../examples/crash.rs"]
mod crash;
mod btrfs;
mod cgroup;
mod oracle;
mod run;

use std::{os::unix::process::ExitStatusExt, thread, time::Duration};

use memreel::validate::{Severity, validate};
use memreel_testing::random::Random;

use cgroup::Cgroup;
use run::Run;

/// Few events are kept in every other run, so that the list of live blocks before them is needed. This process keeps the
/// tapes of half of them.
const RINGS: [u64; 2] = [1_000_000, 6_000];

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.iter().any(|arg| arg == "--tape") {
        crash::main().expect("the tape can be written");
        return;
    }
    if args.iter().any(|arg| arg == "--list") {
        println!("killed_at_random_moments: test\naborted: test\nout_of_memory: test");
        println!("killed_for_memory: test\nfull_disk: test\nfull_disk_that_copies: test");
        return;
    }
    let n_kills = std::env::var("MEMREEL_KILLS").map_or(200, |n| n.parse().expect("a number of kills"));
    killed_at_random_moments(n_kills);
    aborted();
    out_of_memory();
    killed_for_memory();
    full_disk();
    full_disk_that_copies();
}

fn killed_at_random_moments(n: u64) {
    // One is checked while the other runs.
    let of_half = |half: u64| {
        let mut random = Random::new(14 + half);
        let kills = (half..n).step_by(2).map(|number| killed(number, &mut random));
        kills.fold((0, 0), |(n, m), (events, acknowledged)| (n + events, m + acknowledged))
    };
    let [one, other] = thread::scope(|scope| {
        [0, 1].map(|half| scope.spawn(move || of_half(half))).map(|half| half.join().expect("all are whole"))
    });
    let (n_events, n_acknowledged) = (one.0 + other.0, one.1 + other.1);
    println!(
        "{n} kills: {n_acknowledged} allocations were acknowledged, {n_events} events recovered, none is missing"
    );
}

/// Kills a process at a random moment; returns what [`check`] does.
fn killed(number: u64, random: &mut Random) -> (u64, u64) {
    let ring = RINGS[number as usize / 2 % 2].to_string();
    let is_kept_here = number % 8 > 3;
    let args = ["--ring", &ring, "--kept-elsewhere"];
    let mut run = Run::start(if is_kept_here { &args } else { &args[..2] });
    let n_lines = random.below(120);
    run.read_lines(0);
    let keeper = is_kept_here.then(|| run.keep());
    run.read_lines(n_lines);
    thread::sleep(Duration::from_micros(random.below(3000)));
    run.kill();
    drop(keeper);
    check(&run, &format!("kill {number} after {n_lines} lines"))
}

fn aborted() {
    for (number, ring) in (0..4).zip(RINGS.iter().cycle()) {
        let mut run =
            Run::start(&["--ring", &ring.to_string(), "--abort", &(3000 + 1777 * number).to_string()]);
        run.wait();
        check(&run, "abort");
    }
    println!("4 aborts: no acknowledged allocation is missing");
}

/// An allocation that fails under a limit of the address space ends the program by `abort`.
fn out_of_memory() {
    let mut run = Run::start_limited(&["--fill"], 1 << 20);
    let status = run.wait();
    assert!(!status.success(), "{status}");
    check(&run, "out of memory");
    println!("out of memory under a limit: no acknowledged allocation is missing");
}

/// The kernel kills a process whose cgroup has no memory left.
fn killed_for_memory() {
    let Some(group) = Cgroup::make(256 << 20) else {
        return println!("killed for memory: skipped, no cgroup can be made here");
    };
    for ring in RINGS {
        let mut run = Run::start_in(&group, &["--fill", "--ring", &ring.to_string()]);
        let status = run.wait();
        assert_eq!(status.signal(), Some(9), "{status}");
        check(&run, "killed for memory");
    }
    println!("killed for memory in a cgroup: no acknowledged allocation is missing");
}

/// A file system that is full is said once, and the tape has what there was room for.
fn full_disk() {
    let Some(run) = Run::on_small_disk(&["--abort", "300000"], 6) else {
        return println!("full disk: skipped, no file system can be mounted here");
    };
    let (errors, recovered) = (run.errors(), run.recovered());
    let said: Vec<&str> = errors.lines().filter(|line| line.starts_with("memreel: ")).collect();
    assert!(said.len() == 1 && said[0].contains("run.tape"), "{errors}");
    assert!(recovered.problems().iter().any(|problem| problem.contains("could not grow")), "{recovered:?}");
    assert!(recovered.n_events() > 50_000, "{} events", recovered.n_events());
    let snapshot = recovered.snapshot();
    let n_errors = validate(&snapshot).iter().filter(|finding| finding.severity == Severity::Error).count();
    assert_eq!(n_errors, 0);
    println!("full disk: {} events are in a file of 6 MiB", recovered.n_events());
}

/// On btrfs, a page that is written a second time needs new room, and a process whose mapped file has none gets SIGBUS.
fn full_disk_that_copies() {
    let Some((mut run, disk)) = Run::on_btrfs(&["--ring", "200000"]) else {
        return println!("full disk that copies: skipped, no btrfs can be mounted here");
    };
    run.read_lines(100);
    disk.fill();
    run.read_lines(100);
    run.kill();
    println!("full disk that copies: the program lives");
}

/// Checks the tape of a run that has ended; returns how many events it has, and how many allocations of them were
/// acknowledged.
fn check(run: &Run, what: &str) -> (u64, u64) {
    let recovered = run.recovered();
    assert!(recovered.problems().is_empty(), "{what}: {:?}", recovered.problems());
    assert!(!recovered.is_running() && !recovered.is_closed(), "{what}");
    let snapshot = recovered.snapshot();
    let errors: Vec<_> =
        validate(&snapshot).into_iter().filter(|finding| finding.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{what}: {errors:?}");
    let acknowledged = run.acknowledged();
    oracle::check(&snapshot, &acknowledged, what);
    if let Some(folder) = std::env::var_os("MEMREEL_RECOVERED") {
        let path = std::path::Path::new(&folder).join(format!("{}.pickle", what.replace(' ', "-")));
        recovered.save(path).expect("the folder can be written");
    }
    (snapshot.device_traces[0].len() as u64, acknowledged.iter().sum())
}
