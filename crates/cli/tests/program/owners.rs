//! Who has a device's memory: the table, groups, differences and limits by owner.

#![forbid(unsafe_code)]

use std::{cell::Cell, path::PathBuf, process::Output, sync::Arc};

use memreel::{
    integrate::{FrameSource, SourceFrame, UsageReport},
    recorder::{Recorder, Recording},
    snapshot::{Dialect, collect},
};
use memreel_snapshot::{Address, DeviceId, Snapshot, StreamId, analysis::owners, pickle};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{memreel, stderr, stdout};

thread_local! {
    static CALLER: Cell<usize> = const { Cell::new(0) };
}

const ASKING: [&str; 7] = [
    "ncclCommInitRank",
    "c10::cuda::CUDACachingAllocator::malloc",
    "driver:context",
    "memory:managed",
    "memory:imported",
    "driver:module",
    "at::native::empty_cuda",
];

/// Names the function that asks for memory now, and the script that called it.
struct Caller;

impl FrameSource for Caller {
    fn capture(&self, words: &mut [usize]) -> usize {
        words[0] = CALLER.get();
        1
    }

    fn name(&self, word: usize) -> Vec<SourceFrame> {
        let frame = |name: &str, filename: &str, line| SourceFrame {
            name: name.into(),
            filename: filename.into(),
            line,
        };
        vec![frame(ASKING[word], "??", 0), frame("forward", "/home/me/train.py", 10 + word as u32)]
    }
}

/// A recording of segments, given as the caller and the size in MiB, with a report of the device in MiB: what is used, and
/// what other processes use.
fn recording(uuid: &str, segments: &[(usize, u64)], used: u64, others: Option<u64>) -> Snapshot {
    let recorder = Recorder::new();
    assert!(recorder.set_frame_source(Arc::new(Caller)));
    recorder.record_history(&Recording::all());
    recorder.describe_device(DeviceId(0), "NVIDIA H200", uuid);
    let ledger = recorder.ledger(DeviceId(0));
    for (at, (caller, mib)) in (1_u64..).zip(segments) {
        CALLER.set(*caller);
        ledger.segment_alloc(Address(at << 40), mib << 20, StreamId::DEFAULT).unwrap();
    }
    let report = UsageReport {
        used_bytes: used << 20,
        total_bytes: 1 << 37,
        other_processes_bytes: others.map(|mib| mib << 20),
        no_process_bytes: 0,
        pool_slack_bytes: 3 << 20,
        page_rounding_bytes: 1 << 20,
        reserved_address_bytes: if others.is_some() { 90 << 30 } else { 0 },
    };
    recorder.report_usage(DeviceId(0), report);
    collect(&recorder, [&ledger], Dialect::default())
}

/// A recording with every kind of row.
pub(crate) fn snapshot() -> Snapshot {
    recording("GPU-1", &[(0, 390), (1, 1024), (2, 528), (3, 64), (4, 32), (1, 512)], 2560, None)
}

/// A folder with recordings, by their names.
fn folder(all: &[(&str, Snapshot)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    all.iter().for_each(|(name, snapshot)| pickle::save(snapshot, folder.path().join(name)).unwrap());
    folder
}

fn run(folder: &TempDir, arguments: &[&str]) -> Output {
    memreel(arguments).current_dir(folder.path()).output().unwrap()
}

#[test]
fn the_table_adds_up() {
    let folder = folder(&[("run.pickle", snapshot())]);
    let output = run(&folder, &["owners", "run.pickle"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    assert_eq!(
        stdout(&output),
        "\
device 0, NVIDIA H200 (GPU-1)
the device last reported 2.50 GiB used, and 2.50 GiB at the peak, of 128.00 GiB in total
owner                    now         peak   share  mostly requested by
pytorch             1.50 GiB     1.50 GiB  60.0 %  forward (train.py:11)
nccl              390.00 MiB   390.00 MiB  15.2 %  forward (train.py:10)
driver:context    528.00 MiB   528.00 MiB  20.6 %  forward (train.py:12)
pool slack          3.00 MiB     3.00 MiB   0.1 %
page rounding       1.00 MiB     1.00 MiB   0.0 %
other processes  not visible  not visible
sum                 2.40 GiB     2.40 GiB  96.0 %
unexplained       102.00 MiB   102.00 MiB   4.0 %
used                2.50 GiB     2.50 GiB 100.0 %
not part of the sum:
memory:managed     64.00 MiB    64.00 MiB   2.5 %  forward (train.py:13)
memory:imported    32.00 MiB    32.00 MiB   1.2 %  forward (train.py:14)
"
    );
}

/// What other processes have, and what nobody explains, is not beside an owner.
#[test]
fn an_owner_has_the_rest_of_its_processes_beside_it() {
    let beside = |snapshot: &Snapshot, owner| owners(&[snapshot])[0].peak_beside_bytes(owner);
    assert_eq!(beside(&snapshot(), "pytorch"), Some((390 + 528 + 3 + 1) << 20));
    assert_eq!(beside(&snapshot(), "jax"), None);
    let shared = recording("GPU-1", &[(0, 100), (1, 50)], 400, Some(250));
    assert_eq!(beside(&shared, "pytorch"), Some((100 + 3 + 1) << 20));
}

/// Two processes on one device, and a third on another: the first sees the second among others.
#[test]
fn several_files_have_one_table_a_device() {
    let one = recording("GPU-1", &[(0, 100)], 400, Some(250));
    let two = recording("GPU-1", &[(1, 200)], 390, Some(110));
    let three = recording("GPU-2", &[(5, 300)], 200, Some(0));
    let folder = folder(&[("one.pickle", one), ("two.pickle", two), ("three.pickle", three)]);
    let output = run(&folder, &["owners", "--json", "one.pickle", "two.pickle", "three.pickle"]);
    assert_eq!(stderr(&output), "");
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let files: Vec<&Value> = lines.iter().map(|line| &line["files"]).collect();
    assert_eq!(
        files,
        [&serde_json::json!(["one.pickle", "two.pickle"]), &serde_json::json!(["three.pickle"])]
    );
    for line in &lines {
        for at in ["now", "peak"] {
            let rows = line["rows"].as_array().unwrap();
            let sum: i64 = rows.iter().filter_map(|row| row[format!("{at}_bytes")].as_i64()).sum();
            assert_eq!(sum, line[format!("used_{at}_bytes")], "{line}");
        }
    }
    let negative = lines[1]["rows"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&negative["owner"], &negative["now_bytes"]),
        (&"unexplained".into(), &(-104_i64 << 20).into())
    );
    let text = run(&folder, &["owners", "three.pickle"]);
    assert!(
        stdout(&text).contains("unexplained      -104.00 MiB  -104.00 MiB -52.0 %\n"),
        "{}",
        stdout(&text)
    );
    let line = "the rows add up to 104.00 MiB more than the device reports: memory was counted twice, or is not \
                in the GPU's";
    assert!(stdout(&text).replace("\n  ", " ").contains(line), "{}", stdout(&text));
    let positive = run(&folder, &["owners", "one.pickle"]);
    assert!(!stdout(&positive).contains("more than the device reports"), "{}", stdout(&positive));
    assert!(
        stdout(&text).contains("\n90.00 GiB of address space is reserved for mappings, at most 90.00 GiB. ")
    );
}

/// What was there at the peak sleeps now, and something else of the same owner is awake.
#[test]
fn a_row_has_the_line_of_now_and_the_line_of_the_peak() {
    let recorder = Recorder::new();
    assert!(recorder.set_frame_source(Arc::new(Caller)));
    recorder.record_history(&Recording::all());
    let ledger = recorder.ledger(DeviceId(0));
    let report = |used_bytes: u64| {
        // Times have microseconds.
        std::thread::sleep(std::time::Duration::from_millis(1));
        recorder.report_usage(DeviceId(0), UsageReport { used_bytes, ..UsageReport::default() });
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    for (at, (caller, mib)) in [(1, 1024), (6, 300)].into_iter().enumerate() {
        CALLER.set(caller);
        ledger.segment_alloc(Address((at as u64 + 1) << 40), mib << 20, StreamId::DEFAULT).unwrap();
    }
    report(1324 << 20);
    ledger.segment_free(Address(1 << 40)).unwrap();
    report(300 << 20);
    let folder = folder(&[("run.pickle", collect(&recorder, [&ledger], Dialect::default()))]);
    let text = run(&folder, &["owners", "run.pickle"]);
    let rows = "
pytorch           300.00 MiB     1.29 GiB 100.0 %
  now             300.00 MiB                       forward (train.py:16)
  at the peak                    1.00 GiB          forward (train.py:11)
";
    assert!(stdout(&text).contains(rows), "{}", stdout(&text));
    let json = run(&folder, &["owners", "--json", "run.pickle"]);
    let line: Value = serde_json::from_str(stdout(&json)).unwrap();
    let row = &line["rows"][0];
    assert_eq!((&row["stack_bytes"], &row["now_stack_bytes"]), (&(1024 << 20).into(), &(300 << 20).into()));
    assert_eq!((&row["stack"][1]["line"], &row["now_stack"][1]["line"]), (&11.into(), &16.into()));
}

#[test]
fn pinned_memory_that_pytorch_rounds_has_advice() {
    let pinned = |mib: &[u64]| {
        let recorder = Recorder::new();
        assert!(recorder.set_frame_source(Arc::new(Caller)));
        recorder.record_history(&Recording::all());
        recorder.describe_device(DeviceId(1), "pinned host memory", "");
        let ledger = recorder.ledger(DeviceId(1));
        CALLER.set(1);
        for (at, mib) in (1_u64..).zip(mib) {
            ledger.alloc(Address(at << 40), mib << 20, StreamId::DEFAULT).unwrap();
        }
        // Blocks that are given back count as well.
        ledger.free(Address(1 << 40)).unwrap();
        collect(&recorder, [&ledger], Dialect::default())
    };
    let one = pinned(&[1 << 15, 1 << 15, 3 << 10]);
    let folder = folder(&[("one.pickle", one), ("few.pickle", pinned(&[16, 15]))]);
    let text = run(&folder, &["owners", "one.pickle"]);
    assert!(
        stdout(&text).contains("2 blocks with a power of two as size, 64.00 GiB in total"),
        "{}",
        stdout(&text)
    );
    let text = run(&folder, &["owners", "few.pickle"]);
    assert!(!stdout(&text).contains("power of two"), "{}", stdout(&text));
    let json = run(&folder, &["owners", "--json", "one.pickle", "few.pickle"]);
    let line: Value = serde_json::from_str(stdout(&json)).unwrap();
    assert_eq!(
        (&line["n_rounded"], &line["rounded_bytes"]),
        (&3.into(), &((64_u64 << 30) + (16 << 20)).into())
    );
}

#[test]
fn a_file_that_cannot_be_read_fails_and_the_others_are_answered() {
    let folder = folder(&[("run.pickle", snapshot())]);
    std::fs::write(folder.path().join("bad.pickle"), b"no").unwrap();
    let output = run(&folder, &["owners", "bad.pickle", "run.pickle"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("bad.pickle: "), "{}", stderr(&output));
    assert!(stdout(&output).contains("pytorch"));
    let output = run(&folder, &["owners", "--device", "7", "run.pickle"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output), "memreel: no device 7; devices with memory: 0\n");
}

#[test]
fn top_and_diff_group_by_owner() {
    let before = recording("", &[(0, 100), (1, 50)], 400, None);
    let folder = folder(&[("before.pickle", before), ("run.pickle", snapshot())]);
    let top = run(&folder, &["top", "--by", "owner", "--at", "end", "run.pickle"]);
    let rows: Vec<&str> = stdout(&top).lines().skip_while(|line| !line.ends_with("owner")).collect();
    assert_eq!(
        rows,
        [
            "  share    reserved pieces  owner",
            " 60.2 %    1.50 GiB      2  pytorch",
            " 20.7 %  528.00 MiB      1  driver:context",
            " 15.3 %  390.00 MiB      1  nccl",
            "  2.5 %   64.00 MiB      1  memory:managed",
            "  1.3 %   32.00 MiB      1  memory:imported",
        ]
    );
    let diff = run(&folder, &["diff", "--by", "owner", "before.pickle", "run.pickle"]);
    let rows: Vec<&str> = stdout(&diff).lines().skip_while(|line| !line.ends_with("owner")).skip(1).collect();
    assert_eq!(rows[0], "grown     +1.45 GiB     +1  pytorch");
    assert_eq!(rows[2], "grown   +290.00 MiB     +0  nccl");
    assert_eq!(rows.len(), 5);
}

#[test]
fn gates_limit_owners() {
    let old = recording("", &[(0, 300)], 400, None);
    let folder = folder(&[("old.pickle", old), ("run.pickle", snapshot())]);
    let gate = |arguments: &[&str]| run(&folder, &[&["gate"], arguments, &["run.pickle"]].concat());
    let passed = gate(&["--max-owner", "nccl=390MiB", "--max-owner", "driver:context=1GiB"]);
    assert_eq!(passed.status.code(), Some(0), "{}", stdout(&passed));
    assert!(
        stdout(&passed).starts_with("ok      owner nccl is 390.00 MiB, within the limit of 390.00 MiB\n")
    );
    let failed = gate(&["--max-owner", "nccl=389MiB"]);
    assert_eq!(failed.status.code(), Some(4));
    assert!(
        stdout(&failed)
            .starts_with("FAILED  owner nccl is 390.00 MiB, 1.00 MiB over the limit of 389.00 MiB\n")
    );
    let unknown = gate(&["--max-owner", "ncll=1"]);
    assert_eq!(unknown.status.code(), Some(0));
    assert!(stdout(&unknown).contains("note: ncll holds no memory from the device; the owners that do: "));
    let update = ["gate", "--baseline", "old.json", "--update-baseline", "--max-peak", "1TiB", "old.pickle"];
    assert_eq!(run(&folder, &update).status.code(), Some(0));
    for old in ["old.pickle", "old.json"] {
        let baseline = gate(&["--max-owner", "nccl=1GiB", "--baseline", old, "--tolerance", "20%"]);
        assert_eq!(baseline.status.code(), Some(4));
        assert!(stdout(&baseline).contains(
            "FAILED  owner nccl is 390.00 MiB, 30.00 MiB over the limit of 360.00 MiB (baseline)\n"
        ));
    }
    for wrong in ["nccl", "=1", "nccl=many"] {
        assert_eq!(gate(&["--max-owner", wrong]).status.code(), Some(2), "{wrong}");
    }
    let junit: PathBuf = folder.path().join("gate.xml");
    assert_eq!(gate(&["--max-owner", "nccl=1", "--junit", junit.to_str().unwrap()]).status.code(), Some(4));
    assert!(std::fs::read_to_string(junit).unwrap().contains("name=\"owner nccl\""));
}
