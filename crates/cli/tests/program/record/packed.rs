//! Packed tapes, which are written for heaps unless the user names a pickle: they give the same answers as a pickle.

#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use memreel::{Recovered, owners_snapshot};
use memreel_snapshot::analysis::{DeviceOwners, Histories, RunOwners, devices};
use serde_json::Value;

use super::{Run, program, record};

/// What a command prints about a file of a run.
fn answer(run: &Run, words: &[&str], file: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memreel"));
    let done = command.args(words).arg(file).current_dir(&run.folder).output().unwrap();
    assert!(done.stderr.is_empty(), "{words:?} {file}: {}", String::from_utf8_lossy(&done.stderr));
    // The name of the file, and its size.
    let text = String::from_utf8(done.stdout).unwrap();
    let bytes = fs::metadata(run.folder.path().join(file)).unwrap().len();
    text.replace(file, "FILE").replace(&format!("\"file_bytes\":{bytes}"), "\"file_bytes\":N")
}

/// The tapes that were kept.
fn tapes(run: &Run) -> Vec<PathBuf> {
    let folder = run.files().into_iter().find(|name| name.starts_with(".memreel-record-")).unwrap();
    let entries = fs::read_dir(run.folder.path().join(folder)).unwrap();
    let mut tapes: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    tapes.retain(|path| path.extension().is_some_and(|end| end == "tape"));
    tapes.sort();
    tapes
}

#[test]
fn answers_are_those_of_a_pickle() {
    for ring in ["4000000", "20000"] {
        let run =
            record(&["--heap", "--keep-tape", "--json", "--ring", ring], &[&program("packed"), "7"]).run();
        assert_eq!((run.status, &*run.out), (Some(0), "done\n"), "{}", run.err);
        let names = run.files();
        let packed = names.iter().find(|name| name.starts_with("memreel-packed-")).unwrap();
        assert!(packed.ends_with(".tape"), "{names:?}");
        let tape = tapes(&run).pop().unwrap();
        // The pickle is made of the tape, which is as the process left it.
        let made = run.folder.path().join("run.pickle");
        Recovered::read(&tape).unwrap().save(&made).unwrap();
        let small = fs::metadata(run.folder.path().join(packed)).unwrap().len();
        let (all, pickle) = (fs::metadata(&tape).unwrap().len(), fs::metadata(&made).unwrap().len());
        assert!(small < all / 4 && small < pickle / 4, "{small} bytes instead of {all} and {pickle}");
        for command in ["summary", "top", "leaks", "owners", "timeline", "churn", "validate"] {
            let [of_packed, of_pickle] =
                [packed, "run.pickle"].map(|file| answer(&run, &[command, "--json"], file));
            assert!(of_packed.len() > 50, "{command}: {of_packed}");
            assert_eq!(of_packed, of_pickle, "{command}");
        }
        let converted = run.folder.path().join("converted.pickle");
        answer(&run, &["convert", "-o", converted.to_str().unwrap()], packed);
        assert!(fs::read(&converted).unwrap() == fs::read(&made).unwrap());
        // The table at the end of the run.
        let of_file = answer(&run, &["owners", "--json"], "run.pickle");
        let printed =
            run.err.lines().find(|line| line.contains("\"owner\"")).unwrap_or_else(|| panic!("{}", run.err));
        assert_eq!(figures(printed), figures(of_file.lines().next().unwrap()), "{printed}\n{of_file}");
    }
}

/// A table's figures, without the names of files.
fn figures(table: &str) -> Value {
    let mut table: Value = serde_json::from_str(table).unwrap();
    table.as_object_mut().unwrap().remove("files");
    table
}

fn rows(tables: &[DeviceOwners]) -> Vec<String> {
    let row = |table: &DeviceOwners| {
        let rows: Vec<_> = table
            .rows
            .iter()
            .map(|row| {
                let largest = row.largest.map(|stack| (stack.part, stack.bytes));
                (&row.owner, row.kind, row.now_bytes, row.peak_bytes, largest, &row.largest_file)
            })
            .collect();
        let used = (table.used_now_bytes, table.used_peak_bytes, table.now_us, table.peak_us);
        format!("{rows:?} {used:?} {:?} {:?}", table.parts, table.host)
    };
    tables.iter().map(row).collect()
}

/// The table needs few of the events, and is the same.
#[test]
fn the_table_of_a_run_is_that_of_whole_snapshots() {
    let one = program("packed");
    let script =
        format!("{one} 1 30000 & {one} 2 9000 & {one} 3 40000; {one} 4 5000; wait; exec {one} 5 20000");
    for ring in ["4000000", "20000"] {
        let run = record(&["--heap", "--keep-tape", "--ring", ring], &["sh", "-c", &script]).run();
        let (mut whole, mut chosen, mut n_all, mut n_chosen) =
            (RunOwners::default(), RunOwners::default(), 0, 0);
        for tape in tapes(&run) {
            let recovered = Recovered::read(&tape).unwrap();
            let (all, some) = (recovered.snapshot(), owners_snapshot(&recovered, &chosen).unwrap());
            let histories = Histories::new(&all);
            let peaks = devices(&all).into_iter().map(|device| histories.of(device).figures().peak_bytes);
            let most = peaks.max().unwrap_or(0);
            n_all += all.n_events();
            n_chosen += some.n_events();
            whole.add(&all);
            assert_eq!(chosen.add_heap(&some), most);
        }
        assert!(n_chosen < n_all / 4 * 3, "{n_chosen} of {n_all}");
        let [whole, chosen] = [whole, chosen].map(|owners| rows(&owners.tables()));
        assert_eq!(chosen, whole, "ring {ring}");
    }
}

/// Whatever ends the process that saves, at any moment.
#[test]
fn a_tape_is_whole_until_its_packed_form_is() {
    let script = format!("{} pairs 300000 >/dev/null; echo $$", program("program"));
    let mut n_tapes = 0;
    for pause_ms in [0, 20, 50, 90, 140, 200, 270] {
        let mut start = record(&["--heap"], &["sh", "-c", &script]);
        let mut child = start.spawn();
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let beside = || fs::read_to_string(&children).unwrap_or_default();
        // The program and the process that saves; then that alone.
        while beside().split_whitespace().count() < 2 && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(2));
        }
        while beside().split_whitespace().count() == 2 {
            thread::sleep(Duration::from_millis(2));
        }
        thread::sleep(Duration::from_millis(pause_ms));
        let saving = beside();
        if let Some(saving) = saving.split_whitespace().next() {
            let _ = Command::new("kill").args(["-KILL", saving]).status().unwrap();
        }
        let run = start.ended(child.wait_with_output().unwrap());
        assert_eq!(run.status, Some(0), "{}", run.err);
        let mut most = 0;
        let folder = run.files().into_iter().find(|name| name.starts_with(".memreel-record-"));
        let kept = folder.map(|folder| fs::read_dir(run.folder.path().join(folder)).unwrap());
        let kept = kept.into_iter().flatten().map(|entry| entry.unwrap().path());
        let files = run.files().into_iter().map(|name| run.folder.path().join(name));
        let is_tape = |path: &PathBuf| path.extension().is_some_and(|end| end == "tape");
        for path in kept.chain(files).filter(is_tape).filter(|path| Path::metadata(path).unwrap().len() > 0) {
            let read = Recovered::read(&path).unwrap();
            assert_eq!(read.problems(), [""; 0], "{}", path.display());
            most = most.max(read.n_events());
            n_tapes += 1;
        }
        assert!(most >= 600_000, "{most} events after {pause_ms} ms: {:?} {}", run.files(), run.err);
    }
    assert!(n_tapes >= 7);
}
