//! Cases of exporting a million events, and of symbolising addresses.

use std::{fs::File, hint::black_box, path::Path, time::Instant};

use memreel::{
    DeviceId,
    integrate::name_addresses,
    pickle,
    recorder::{Recorder, Recording},
    snapshot::{Dialect, Snapshot, SnapshotSource, collect, collect_lazily},
};
use object::{Object, ObjectSymbol};

use crate::{
    chains,
    events::event,
    report::{Reporter, median},
};

const N_EVENTS: usize = 1_000_000;
const N_STACKS: usize = 2_000;
const N_ADDRESSES: usize = 2_000;
const N_RUNS: usize = 7;

pub(crate) fn measure(reporter: &Reporter) {
    export(reporter);
    symbolise(reporter);
}

fn export(reporter: &Reporter) {
    let recorder = filled();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("snapshot.pickle");
    // This symbolises every address, so that the export is measured without it.
    let snapshot = snapshot(&recorder);
    assert_eq!((snapshot.n_events(), snapshot.stacks.len()), (N_EVENTS, N_STACKS + 1));
    let whole = median(N_RUNS, || {
        let _ = std::fs::remove_file(&path);
        seconds(|| {
            let ledger = recorder.ledger(DeviceId(0));
            write(&collect_lazily(&recorder, [&ledger], Dialect::default()), &path);
        })
    });
    reporter.report_many("export_1m", "memreel", N_EVENTS, whole);
    let collected = median(N_RUNS, || seconds(|| drop(black_box(self::snapshot(&recorder)))));
    reporter.report_many("export_1m_collect", "memreel", N_EVENTS, collected);
    let written = median(N_RUNS, || {
        let _ = std::fs::remove_file(&path);
        seconds(|| write(&snapshot, &path))
    });
    reporter.report_many("export_1m_write", "memreel", N_EVENTS, written);
}

fn write(document: &impl SnapshotSource, path: &Path) {
    pickle::write_file(document, &File::create(path).expect("a new file")).expect("space");
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Returns a recorder with a million events whose 2,000 stacks alternate.
fn filled() -> Recorder {
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all().max_entries(N_EVENTS));
    let track = recorder.track(DeviceId(0));
    let mut stacks = Vec::new();
    for path in 0..N_STACKS as u32 / 2 {
        chains::run(path, &mut || stacks.push(track.stack_of_alloc(512)));
        chains::run(path, &mut || stacks.push(track.stack_of_alloc(1024)));
    }
    // Two events per stack, because a block's allocation and its free have the same.
    for n in 0..N_EVENTS {
        let n_th = u32::try_from(n).expect("a million");
        track.record(event(n_th, stacks[n / 2 % stacks.len()]));
    }
    recorder
}

fn snapshot(recorder: &Recorder) -> Snapshot {
    collect(recorder, [&recorder.ledger(DeviceId(0))], Dialect::default())
}

/// Symbolises addresses from all over this program that were not symbolised before.
fn symbolise(reporter: &Reporter) {
    let addresses = own_addresses();
    assert_eq!(addresses.len(), N_ADDRESSES);
    let ours = median(N_RUNS, || seconds(|| _ = black_box(name_addresses(&addresses))));
    reporter.report_many("symbolise_2000", "memreel", N_ADDRESSES, ours);
    // A single run, because backtrace caches what it reads.
    let theirs = seconds(|| {
        for address in &addresses {
            backtrace::resolve(std::ptr::without_provenance_mut(*address), |symbol| {
                black_box((symbol.name().map(|name| name.to_string()), symbol.filename(), symbol.lineno()));
            });
        }
    });
    reporter.report_many("symbolise_2000", "backtrace::resolve", N_ADDRESSES, theirs);
}

/// Returns addresses inside this program's functions, evenly spread.
fn own_addresses() -> Vec<usize> {
    let bytes = std::fs::read("/proc/self/exe").expect("this program's file");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let mut functions: Vec<u64> = file
        .symbols()
        .filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.size() > 16)
        .map(|symbol| symbol.address() + symbol.size() / 2)
        .collect();
    functions.sort_unstable();
    functions.dedup();
    let measured = file.symbols().find(|symbol| symbol.name().is_ok_and(|name| name == "main"));
    let main = measured.expect("a main function").address();
    // The load address: the run-time address of `main` minus its address in the file.
    let loaded_at = main_address().wrapping_sub(main as usize);
    let step = functions.len() as f64 / N_ADDRESSES as f64;
    (0..N_ADDRESSES).map(|n| loaded_at.wrapping_add(functions[(n as f64 * step) as usize] as usize)).collect()
}

fn main_address() -> usize {
    unsafe extern "C" {
        fn main();
    }
    main as unsafe extern "C" fn() as usize
}
