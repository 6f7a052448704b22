//! Rewriting with the events left in the file gives the bytes that rewriting in memory gives.

use memreel_snapshot::{
    DeviceId, Snapshot,
    model::{SnapshotSource, raw::UseCounts},
    pickle,
    rewrite::{Merged, Part, Slim, Window, merge},
};

use crate::{fixtures::all_files, random::Random, recorded::recorded};

/// Files of every PyTorch, of oddities, and of random recordings.
fn files() -> Vec<(String, Vec<u8>)> {
    let mut files = all_files();
    files.extend((0..20).map(|seed| (format!("seed {seed}"), pickle::to_vec(&recorded(seed, 250)))));
    files
}

/// What is counted beforehand is what is there.
fn assert_counts(document: &dyn SnapshotSource, name: &str) {
    let mut uses = UseCounts::default();
    for device in DeviceId::first(document.n_traces()) {
        let mut n_entries = 0;
        document.for_each_entry(device, &mut |entry| {
            uses.add(entry);
            n_entries += 1;
        });
        assert_eq!(document.n_entries(device), n_entries, "{name}");
        let (mut all, mut parts) = (Vec::new(), Vec::new());
        document.for_each_entry(device, &mut |entry| all.push(*entry));
        for range in [0..3, 3..n_entries / 2, n_entries / 2..usize::MAX] {
            let start = range.start.min(n_entries / 2);
            document.for_each_entry_in(device, start..range.end.max(start), &mut |entry| parts.push(*entry));
        }
        assert!(n_entries < 6 || parts == all, "{name}: ranges of events");
    }
    assert!(document.use_counts() == uses, "{name}: uses");
}

/// A random choice of what to leave out.
fn some_slim(random: &mut Random, snapshot: &Snapshot) -> Slim {
    let longest = snapshot.device_traces.iter().map(Vec::len).max().unwrap_or(0);
    let times: Vec<i64> = snapshot.device_traces.iter().flatten().map(|entry| entry.time_us).collect();
    let from = random.index(longest + 1);
    let window = match random.index(5) {
        0 => Some(Window::Events { device: None, range: from..from + random.index(longest + 1) }),
        1 if !times.is_empty() => {
            let [one, other] = [0; 2].map(|_| times[random.index(times.len())]);
            Some(Window::Time(one.min(other)..one.max(other)))
        }
        2 => Some(Window::Scope { name: "forward".into(), nth: [None, Some(0)][random.index(2)] }),
        _ => None,
    };
    let mut slim = Slim::new()
        .window(window)
        .min_bytes([0, 0, 1000, 1_000_000][random.index(4)])
        .depth([None, None, Some(0), Some(3)][random.index(4)]);
    if random.index(2) == 1 {
        slim = slim.drop_path("/torch/").drop_path(".cpp");
    }
    if random.index(2) == 1 {
        slim = slim.strip_prefix("/usr").strip_prefix("/");
    }
    slim.anonymise(random.index(3) == 0)
}

#[test]
fn slim_over_a_file_is_slim_in_memory() {
    let mut random = Random::new(7);
    let mut n_refused = 0;
    for (name, bytes) in files() {
        let whole = pickle::from_slice(&bytes).unwrap();
        let lazy = pickle::lazy(&bytes).unwrap();
        for _ in 0..12 {
            let slim = some_slim(&mut random, &whole);
            let name = format!("{name}: {slim:?}");
            match (slim.apply(whole.clone()), slim.over(&lazy)) {
                (Ok(held), Ok(streamed)) => {
                    assert_counts(&streamed, &name);
                    assert!(pickle::to_vec(&streamed) == pickle::to_vec(&held), "{name}");
                }
                (held, streamed) => {
                    assert_eq!(held.unwrap_err().to_string(), streamed.unwrap_err().to_string(), "{name}");
                    n_refused += 1;
                }
            }
        }
    }
    assert!(n_refused > 5, "no window was refused");
}

#[test]
fn merged_files_are_merged_snapshots() {
    let mut random = Random::new(3);
    let files = files();
    let mut n_merged = 0;
    for n in 0..120 {
        let mut names = Vec::new();
        let (mut held, mut streamed) = (Vec::new(), Vec::new());
        for nth in 0..1 + random.index(4) {
            let (name, bytes) = &files[random.index(files.len())];
            let rank = [None, Some(3 * nth), Some(7 - nth)][n % 3];
            names.push((name, rank));
            held.push(Part::new(pickle::from_slice(bytes).unwrap()).rank(rank));
            streamed.push(Part::new(pickle::lazy(bytes).unwrap()).rank(rank));
        }
        let name = format!("{names:?}");
        let (held, streamed) = (merge(held).unwrap(), Merged::new(streamed).unwrap());
        assert_counts(&streamed, &name);
        assert!(pickle::to_vec(&streamed) == pickle::to_vec(&held), "{name}");
        n_merged += held.n_events();
    }
    assert!(n_merged > 10_000);
}

#[test]
fn a_window_of_times_out_of_order_goes_from_the_first_to_the_last() {
    let mut whole = recorded(1, 100);
    whole.device_traces.truncate(1);
    let trace = &mut whole.device_traces[0];
    trace.truncate(8);
    for (entry, time) in trace.iter_mut().zip([10, 20, 15, 40, 30, 25, 60, 50]) {
        entry.time_us = time;
    }
    for (times, expected) in
        [(15..31, &[20, 15, 40, 30, 25][..]), (0..11, &[10]), (55..99, &[60, 50]), (90..99, &[])]
    {
        let cut = Slim::new().window(Window::Time(times.clone())).apply(whole.clone()).unwrap();
        let kept: Vec<i64> = cut.device_traces[0].iter().map(|entry| entry.time_us).collect();
        assert_eq!(kept, expected, "{times:?}");
    }
}
