//! Disks that fill, libraries that are unloaded, and interpreters that cannot be read: programs behave as without us.

#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{Start, cc, live, live_from, program, record, source};

const FILE: [&str; 3] = ["--heap", "-o", "run.pickle"];

/// A file system of some mebibytes, while it lives.
pub(super) struct Disk(PathBuf);

impl Disk {
    pub(super) fn of(path: PathBuf, mib: u32) -> Option<Disk> {
        fs::create_dir(&path).unwrap();
        let size = format!("size={mib}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path).output();
        if !mounted.is_ok_and(|mounted| mounted.status.success()) {
            println!("skipped: cannot mount a small file system");
            return None;
        }
        Some(Disk(path))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_disk_that_fills_disturbs_no_program() {
    // Room for the beginning of a tape; for a tape and no snapshot.
    for (mib, what) in [(1, "many"), (4, "many"), (4, "closed")] {
        let program = program("program");
        let start = record(&["--heap", "-o", "disk/run.pickle"], &[&program, what]);
        let Some(disk) = Disk::of(start.path("disk"), mib) else { return };
        let plain = Start::of(&program, &[what]).run();
        let run = start.run();
        assert_eq!((run.status, &run.out), (plain.status, &plain.out), "{mib} {what}: {}", run.err);
        if what == "many" {
            assert!(run.err.contains("No space left on device"), "{mib} {what}: {}", run.err);
        }
        drop(disk);
    }
}

#[test]
fn odd_preloads_and_few_descriptors_disturb_no_program() {
    let words = [&*program("program"), "many"];
    let plain = Start::of(words[0], &words[1..]).run();
    for preload in ["", " : ", "libmemreel_is_not_there.so", "/a b.so::"] {
        let run = record(&FILE, &words).env("LD_PRELOAD", preload).run();
        assert_eq!((run.status, &run.out), (plain.status, &plain.out), "{preload:?}: {}", run.err);
        assert_eq!(live_from(&run.snapshot("run.pickle"), 100_000), run.counted(), "{preload:?}");
    }
    let memreel = env!("CARGO_BIN_EXE_memreel");
    let limited = format!("ulimit -n 16; exec {memreel} record --heap -o run.pickle -- {} many", words[0]);
    let run = Start::of("sh", &["-c", &limited]).run();
    assert_eq!((run.status, &run.out), (plain.status, &plain.out), "{}", run.err);
    assert_eq!(live_from(&run.snapshot("run.pickle"), 100_000), run.counted(), "{}", run.err);
}

/// What may have few files open, such as `sort` with a low limit, may need them all.
#[test]
fn where_descriptors_are_few_a_program_has_them_all() {
    let (memreel, program) = (env!("CARGO_BIN_EXE_memreel"), program("program"));
    let limited = |before: &str| {
        Start::of("sh", &["-c", &format!("ulimit -n 12; exec {before} {program} opens")]).run()
    };
    let plain = limited("");
    let run = limited(&format!("{memreel} record --heap -o run.pickle --"));
    let opened = |text: &str| text.lines().find(|line| line.starts_with("opened")).map(str::to_owned);
    assert_eq!((run.status, &run.out), (plain.status, &plain.out), "{}", run.err);
    assert!(
        opened(&plain.err).is_some() && opened(&run.err) == opened(&plain.err),
        "{} {}",
        plain.err,
        run.err
    );
    assert_eq!(live_from(&run.snapshot("run.pickle"), 100_000), run.counted(), "{}", run.err);
}

/// Without a tape nothing would read what is recorded: it is not kept in memory, and the end of the run does not say that the
/// program allocated nothing.
#[test]
fn what_cannot_write_a_tape_records_no_more() {
    let (memreel, program) = (env!("CARGO_BIN_EXE_memreel"), program("program"));
    // The beginning of a tape has 4 KiB, and a step 2 MiB.
    for (blocks, line) in [(4, "there is no tape: cannot create "), (64, " cannot grow (")] {
        let script =
            format!("ulimit -f {blocks}; exec {memreel} record --heap -o run.pickle -- {program} pairs");
        let run = Start::of("sh", &["-c", &script]).run();
        assert_eq!((run.status, run.counted()), (Some(0), (20, 2_190_000)), "{}", run.err);
        assert_eq!(run.err.matches(line).count(), 1, "{}", run.err);
        assert!(
            !run.err.contains("continues in memory") && !run.err.contains("allocated nothing"),
            "{}",
            run.err
        );
        assert!(
            run.err.contains("1 process wrote no tape") || run.err.contains(": no events\n"),
            "{}",
            run.err
        );
    }
}

/// What has no library of memreel runs as without it, in another root too, and no line of the loader is there.
#[test]
fn a_program_in_another_root_meets_no_preload() {
    let roots = tempfile::tempdir().unwrap();
    let make = "for f in $(ldd /bin/sh /bin/ls | grep -o '/[^ :]*' | sort -u) /bin/sh /bin/ls; do mkdir -p $0$(dirname $f); cp -L $f $0$f; done";
    let root = roots.path().display().to_string();
    assert!(Command::new("sh").args(["-c", make, &root]).status().unwrap().success());
    for words in [
        ["chroot", &*root, "/bin/sh", "-c", "ls / >/dev/null; /bin/ls; ls; echo $LD_PRELOAD"],
        ["unshare", "--root", &*root, "/bin/sh", "-c"],
    ] {
        let words = if words[0] == "unshare" { [&words[..], &["ls; ls"]].concat() } else { words.to_vec() };
        let plain = Start::of(words[0], &words[1..]).run();
        if plain.status != Some(0) {
            println!("skipped: cannot change the root: {}", plain.err);
            return;
        }
        let run = record(&FILE, &words).run();
        assert_eq!((run.status, &run.out), (plain.status, &plain.out), "{}", run.err);
        assert!(!run.err.contains("ld.so"), "{}", run.err);
        assert!(run.files().contains(&"run.pickle".to_owned()), "{}", run.err);
    }
}

/// Threads do not wait for a fork that takes longer than two seconds, and what they allocate meanwhile is counted.
#[test]
fn what_a_slow_fork_loses_is_counted() {
    let run = record(&FILE, &[&program("slow_fork")]).env("LD_PRELOAD", program("libslow.so")).run();
    assert_eq!((run.status, &*run.out), (Some(0), "0\n"), "{}", run.err);
    let line = "events were not recorded: a fork took longer than two seconds";
    assert_eq!(run.err.matches(line).count(), 1, "{}", run.err);
    let run = record(&FILE, &[&program("slow_fork")]).run();
    assert!(run.status == Some(0) && !run.err.contains("not recorded"), "{}", run.err);
}

/// The kernel returns an error, and so does memreel's wrapper.
#[test]
fn an_environment_that_is_no_memory_is_an_error() {
    let words = [&*program("starting"), "faults"];
    let plain = Start::of(words[0], &words[1..]).run();
    let run = record(&FILE, &words).run();
    assert_eq!((run.status, &run.out), (plain.status, &plain.out), "{}", run.err);
    assert_eq!((plain.status, plain.out.lines().count()), (Some(0), 5));
}

/// Programs that another user runs cannot write tapes, and are counted in one line.
#[test]
fn programs_of_another_user_are_one_line() {
    let words = [&*program("starting"), "rights"];
    let plain = Start::of(words[0], &words[1..]).run();
    if plain.status != Some(0) {
        println!("skipped: this is not root");
        return;
    }
    let run = record(&FILE, &words).run();
    assert_eq!(run.status, Some(0), "{}", run.err);
    let (lines, others) = (run.err.matches("another user").count(), run.err.matches("not recorded").count());
    assert!(lines == 1 && others == 0 && run.err.contains("memreel: 4 programs ran"), "{}", run.err);
}

/// It says once that it has no tape, for the programs that it starts too.
#[test]
fn what_has_no_tape_finds_its_environment() {
    let script = format!("ulimit -f 0; exec {} tape", program("starting"));
    let run = record(&FILE, &["sh", "-c", &script]).run();
    assert_eq!((run.status, &*run.out), (Some(0), "1 0\n"), "{}", run.err);
    assert_eq!(run.err.matches("there is no tape").count(), 1, "{}", run.err);
}

/// The limit ends a process that has not asked to live with it, and memreel asks for less than it.
#[test]
fn a_limit_of_file_sizes_disturbs_no_program() {
    let program = program("program");
    for before in ["", "trap '' XFSZ; "] {
        let memreel = env!("CARGO_BIN_EXE_memreel");
        // 3 MiB: the unit is 512 bytes.
        let script =
            format!("{before}ulimit -f 6144; exec {memreel} record --heap -o run.pickle -- {program} many");
        let run = Start::of("sh", &["-c", &script]).run();
        assert_eq!((run.status, run.counted()), (Some(0), (20, 2_190_000)), "{before}: {}", run.err);
        assert!(run.err.contains("ulimit -f") || run.err.contains("File too large"), "{before}: {}", run.err);
    }
}

/// Frames in a library that is gone from the process have names as long as its file is there.
#[test]
fn a_library_that_was_unloaded_has_names() {
    let start = record(&FILE, &[&program("program"), "unloads", "./libgrows.so"]);
    let grows = start.path("libgrows.so");
    cc(&["-shared", "-fPIC", "-o", grows.to_str().unwrap(), &source("grows.c")]);
    let run = start.run();
    assert_eq!(run.status, Some(0), "{}", run.err);
    let snapshot = run.snapshot("run.pickle");
    assert_eq!(live_from(&snapshot, 100_000), run.counted());
    let grown: Vec<_> = live(&snapshot).filter(|block| block.requested_size == 500_000).collect();
    assert_eq!(grown.len(), 3);
    for block in grown {
        let frames: Vec<_> = snapshot.stacks.frames(block.stack.unwrap()).collect();
        let is_named = frames
            .iter()
            .any(|frame| &*frame.name == "grown_here" && Path::new(&*frame.filename).ends_with("grows.c"));
        assert!(is_named, "{frames:?}");
    }
}

/// What exports the names of an interpreter, and is not CPython or of a version that is not known, has native frames.
#[test]
fn an_interpreter_that_is_not_known_has_native_frames() {
    for version in ["3.10.14 (75b3de9d9035) [PyPy 7.3.16]", "3.99.0 (main)", "2.7.18 (default)"] {
        let run = record(&FILE, &[&program("interpreter")]).env("SAID_VERSION", version).run();
        assert_eq!((run.status, &*run.out), (Some(0), "1 300000\n"), "{}", run.err);
        let snapshot = run.snapshot("run.pickle");
        let block = live(&snapshot).find(|block| block.requested_size == 300_000).unwrap();
        let frames: Vec<_> = snapshot.stacks.frames(block.stack.unwrap()).collect();
        assert!(frames.iter().any(|frame| &*frame.name == "main"), "{version}: {frames:?}");
    }
}
