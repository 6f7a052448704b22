//! `memreel recover`, and the other commands on a tape.

#![forbid(unsafe_code)]

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use memreel::{Allocation, Recovered, Reel, device::Simulated, recorder::Recording};
use memreel_snapshot::pickle;
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    every_command::{ROWS, Row},
    json_lines::{schema, validator},
    support::{fixture, memreel, run, stderr, stdout},
};

/// A folder with `run.tape` of this process, which still records.
fn recorded() -> (TempDir, (Reel, [Allocation; 2])) {
    let folder = tempfile::tempdir().unwrap();
    let history = Recording::all().tape(folder.path().join("run.tape"));
    let reel = Reel::builder().device(Simulated::new(1 << 30)).history(history).build().unwrap();
    let blocks = [reel.alloc(3000).unwrap(), reel.alloc(5 << 20).unwrap()];
    drop(reel.alloc(2 << 30));
    (folder, (reel, blocks))
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).display().to_string()
}

#[test]
fn a_tape_becomes_a_snapshot() {
    let (folder, reel) = recorded();
    let (tape, written) = (path(&folder, "run.tape"), path(&folder, "out.pickle"));
    let output = run(&["recover", &tape, "-o", &written, "--json"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let line: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert!(validator(&schema(), "recover").is_valid(&line), "{line}");
    assert_eq!((&line["is_running"], &line["is_closed"]), (&true.into(), &false.into()));
    let snapshot = pickle::load(&written).unwrap();
    assert_eq!(snapshot.device_traces[0].len() as u64, line["n_events"].as_u64().unwrap());
    drop(reel);
    let output = run(&["recover", &tape, "-o", &written]);
    assert!(stdout(&output).contains("which ended its recording"), "{}", stdout(&output));
    assert!(pickle::load(&written).unwrap().device_traces[0].len() > snapshot.device_traces[0].len());
}

/// Every command answers for a tape what it answers for the snapshot of the same moment.
#[test]
fn every_command_reads_a_tape() {
    let (folder, reel) = recorded();
    drop(reel);
    let (tape, pickle) = (path(&folder, "run.tape"), path(&folder, "of-tape.pickle"));
    assert_eq!(run(&["recover", &tape, "-o", &pickle]).status.code(), Some(0));
    let out = path(&folder, "out");
    fs::create_dir(&out).unwrap();
    for Row { name, needs, n_files, .. } in ROWS.iter().filter(|row| row.n_files != Some(0)) {
        let answer = |file: &str| {
            let mut command = memreel(&[name]);
            command.args(
                needs.iter().map(|need| if *need == crate::every_command::OUTPUT { &*out } else { need }),
            );
            let output = command.args(vec![file; n_files.unwrap_or(1)]).output().unwrap();
            let mut text = stdout(&output).replace(file, "FILE");
            if *name == "ranks" {
                // A table with the names of files, which are of different lengths.
                let base = Path::new(file).file_name().unwrap().to_str().unwrap();
                text = text.replace(base, "FILE").split_whitespace().collect::<Vec<_>>().join(" ");
            }
            (output.status.code(), stderr(&output).to_owned(), text)
        };
        let (of_tape, of_pickle) = (answer(&tape), answer(&pickle));
        // A tape has no bytes of a pickle that could be repaired or converted under its name.
        if !matches!(*name, "fix" | "convert" | "split" | "validate") {
            assert_eq!(of_tape, of_pickle, "{name}");
        }
        assert_eq!((of_tape.0, &*of_tape.1), (of_pickle.0, &*of_pickle.1), "{name}");
    }
}

#[test]
fn what_is_missing_is_reported() {
    let (folder, reel) = recorded();
    drop(reel);
    let tape = folder.path().join("run.tape");
    let mut bytes = fs::read(&tape).unwrap();
    // The build of a module in the list of modules: the program is another one now.
    let name = std::env::current_exe().unwrap();
    let name = name.to_str().unwrap().as_bytes().to_vec();
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap();
    bytes[at] = b'?';
    fs::write(&tape, bytes).unwrap();
    let written = path(&folder, "out.pickle");
    let output = run(&["recover", tape.to_str().unwrap(), "-o", &written]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("notes are damaged"), "{}", stdout(&output));
    let output = run(&["top", tape.to_str().unwrap()]);
    assert!(stderr(&output).contains("notes are damaged"), "{}", stderr(&output));
}

#[test]
fn wrong_usage_and_other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let written = path(&folder, "out.pickle");
    let output = run(&["recover", "synthetic/valid.pickle", "-o", &written]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("not a tape"), "{}", stderr(&output));
    assert!(!Path::new(&written).exists());
    assert_eq!(run(&["recover", "missing.tape", "-o", &written]).status.code(), Some(3));
    assert_eq!(run(&["recover", "missing.tape"]).status.code(), Some(2));
    let output = run(&["recover", "a.tape", "b.tape", "-o", &written]);
    assert_eq!((output.status.code(), stderr(&output).contains("folder")), (Some(2), true));
    let (recorded, _reel) = recorded();
    let tape = path(&recorded, "run.tape");
    let output = run(&["recover", &tape, "-o", &tape]);
    assert_eq!((output.status.code(), stderr(&output).contains("the tape itself")), (Some(2), true));
    assert!(Recovered::is_tape(&tape), "the tape is not replaced by a snapshot");
    let help = run(&["recover", "--help"]);
    assert!(
        stdout(&help).contains("Examples:\n  memreel recover") && stdout(&help).contains("Exit status: 0 ")
    );
}

/// `--follow` writes until the process has ended.
#[test]
fn a_tape_is_followed_to_its_end() {
    let (folder, (reel, blocks)) = recorded();
    let (tape, written) = (path(&folder, "run.tape"), path(&folder, "out.pickle"));
    let mut follower: std::process::Child = Command::new(env!("CARGO_BIN_EXE_memreel"))
        .args(["recover", &tape, "-o", &written, "--follow", "1"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while !Path::new(&written).exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(follower.try_wait().unwrap().is_none(), "it goes on");
    (0..100).for_each(|_| drop(reel.alloc(4000).unwrap()));
    drop((blocks, reel));
    assert_eq!(follower.wait().unwrap().code(), Some(0));
    assert!(pickle::load(&written).unwrap().device_traces[0].len() > 300);
}

/// A pipe under a name is a snapshot as a file is; a tape in it is refused with a reason.
#[test]
fn a_pipe_is_read_once() {
    let (folder, _reel) = recorded();
    let of_pipe = |path: &Path| {
        let mut command = memreel(&["top", "/dev/stdin"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let bytes = fs::read(path).unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let writer = std::thread::spawn(move || pipe.write_all(&bytes));
        let output = child.wait_with_output().unwrap();
        drop(writer.join());
        output
    };
    let output = of_pipe(&fixture("synthetic/valid.pickle"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = of_pipe(&folder.path().join("run.tape"));
    assert_eq!(output.status.code(), Some(3), "{}", stdout(&output));
    assert!(stderr(&output).contains("a tape can only be read from a file"), "{}", stderr(&output));
}

/// PyTorch's blocks take the place of the driver's in the segments of both.
#[test]
fn pytorchs_blocks_are_put_into_a_tape() {
    use memreel::recorder::Recorder;
    use memreel_snapshot::{Address, DeviceId, StreamId};
    let folder = tempfile::tempdir().unwrap();
    let (tape, written) = (path(&folder, "run.tape"), path(&folder, "out.pickle"));
    let driver = Recorder::new();
    driver.record_history(&Recording::all().tape(&tape));
    let ledger = driver.ledger(DeviceId(0));
    for (at, bytes) in [(0x7f00_0000_0000, 2 << 20), (0x7f10_0000_0000, 6 << 20)] {
        ledger.segment_alloc(Address(at), bytes, StreamId::DEFAULT).unwrap();
        ledger.alloc(Address(at), bytes, StreamId::DEFAULT).unwrap();
    }
    let torch = Reel::builder().device(Simulated::new(1 << 30)).history(Recording::all()).build().unwrap();
    let _block = torch.alloc(3000).unwrap();
    let pickle = path(&folder, "torch.pickle");
    torch.save(&pickle).unwrap();
    let output = run(&["recover", &tape, "--torch", &pickle, "-o", &written, "--json"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let line: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert!(validator(&schema(), "recover").is_valid(&line), "{line}");
    assert!(line["torch"].as_str().unwrap().starts_with("PyTorch's blocks are as of "), "{line}");
    let merged = pickle::load(&written).unwrap();
    let sizes: Vec<u64> = merged.segments.iter().map(|segment| segment.blocks[0].requested_size).collect();
    assert_eq!(sizes, [3000, 6 << 20]);
    let output = run(&["recover", &tape, "--torch", &path(&folder, "none"), "-o", &written]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("none"), "{}", stderr(&output));
    drop((ledger, driver));
}
