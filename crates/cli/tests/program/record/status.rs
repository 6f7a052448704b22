//! What users see of a run: exit statuses, messages, streams, and signals that reach the program.

#![forbid(unsafe_code)]

use std::{
    fs::{self, Permissions},
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{Run, Start, has, libraries, program, record};
use crate::{
    support::{memreel, stdout},
    terminal::terminal,
};

const IDLE: &str = "allocated no GPU memory; use --heap to record its heap\n";

#[test]
fn a_program_without_a_gpu_keeps_its_status() {
    let programs: [(&[&str], i32); 4] = [
        (&["true"], 0),
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "kill -TERM $$"], 143),
        (&["sh", "-c", "kill -KILL $$"], 137),
    ];
    for (words, status) in programs {
        let run = record(&[], words).run();
        assert_eq!((run.status, &*run.out), (Some(status), ""), "{words:?}");
        assert_eq!(run.err, format!("memreel: {} {IDLE}", words[0]));
        assert!(run.files().is_empty(), "{:?}", run.files());
    }
}

#[test]
fn an_option_behind_the_program_is_the_programs() {
    let run = record(&[], &["true", "--heap"]).run();
    assert!(
        run.err.ends_with("put --heap before the program's name: after it, it is an option of the program\n"),
        "{}",
        run.err
    );
}

/// The snapshot says how the program failed, so that a gate on it does not pass unnoticed.
#[test]
fn a_snapshot_says_how_the_program_failed() {
    let endings = [
        ("exit 0", None),
        ("exit 3", Some("exit status: 3")),
        ("kill -SEGV $$", Some("signal: 11 (SIGSEGV)")),
    ];
    for (words, failure) in endings {
        // The child of the shell ends well.
        let run =
            record(&["--heap", "-o", "x.pickle"], &["sh", "-c", &format!("ls / >/dev/null; {words}")]).run();
        let failures: Vec<Option<String>> = run
            .snapshots()
            .iter()
            .map(|(_, snapshot)| snapshot.program_failure().map(|text| text.replace(" (core dumped)", "")))
            .collect();
        assert_eq!(failures.iter().flatten().collect::<Vec<_>>(), failure.as_slice(), "{words}: {}", run.err);
        assert_eq!(run.snapshot("x.pickle").program_failure().is_some(), failure.is_some(), "{words}");
        let path = run.folder.path().join("x.pickle");
        let gate = |options: &[&str]| {
            let of_file = ["--device", "1", "--max-peak", "1GiB", path.to_str().unwrap()];
            memreel(&[&["gate"], options, &of_file].concat()).output().unwrap()
        };
        let [plain, strict] = [gate(&[]), gate(&["--strict"])];
        assert_eq!(plain.status.code(), Some(0), "{}", stdout(&plain));
        assert_eq!(strict.status.code(), Some(if failure.is_some() { 4 } else { 0 }), "{}", stdout(&strict));
        assert_eq!(
            stdout(&plain).contains("note: the program failed ("),
            failure.is_some(),
            "{}",
            stdout(&plain)
        );
    }
}

#[test]
fn a_program_that_cannot_be_started_is_127_or_126() {
    let missing = record(&[], &["./no-such-program"]).run();
    assert_eq!(missing.status, Some(127));
    assert_eq!(missing.err, "memreel: ./no-such-program: No such file or directory (os error 2)\n");
    assert!(missing.files().is_empty());
    let start = record(&[], &["./plain.txt"]);
    fs::write(start.path("plain.txt"), "text").unwrap();
    let refused = start.run();
    assert_eq!(refused.status, Some(126));
    assert_eq!(refused.err, "memreel: ./plain.txt: Permission denied (os error 13)\n");
    assert_eq!(refused.files(), ["plain.txt"]);
}

/// A shell and `env` run a file without `#!` as a script of `sh`.
#[test]
fn a_script_without_an_interpreter_is_run_as_shells_run_it() {
    let start = record(&[], &["./script", "one", "two"]);
    fs::write(start.path("script"), "echo $0 $2\nexit 6\n").unwrap();
    fs::set_permissions(start.path("script"), Permissions::from_mode(0o755)).unwrap();
    let run = start.run();
    assert_eq!((run.status, &*run.out), (Some(6), "./script two\n"), "{}", run.err);
}

#[test]
fn wrong_usage_is_2_before_the_program_runs() {
    let wrong: [(&[&str], &str); 7] = [
        (&["--every", "nonsense"], "memreel: MEMREEL: "),
        (&["--signal", "KILLER"], "memreel: MEMREEL: "),
        (&["--stacks", "some"], "memreel: MEMREEL: "),
        (&["--ring", "many"], "memreel: MEMREEL: "),
        (&["--min-size", "12q"], "memreel: MEMREEL: "),
        (&["-o", "."], "memreel: -o needs a file name, but . is a folder\n"),
        (&["--no-such-option"], "error: unexpected argument '--no-such-option'"),
    ];
    for (options, message) in wrong {
        let run = record(options, &["touch", "ran"]).run();
        assert_eq!(run.status, Some(2), "{options:?}: {}", run.err);
        assert!(run.err.starts_with(message), "{options:?}: {}", run.err);
        assert!(run.files().is_empty(), "{options:?}: {:?}", run.files());
    }
    let nonsense = record(&["--every", "nonsense"], &["true"]).run();
    assert!(nonsense.err.contains("\"nonsense\""), "{}", nonsense.err);
    let twice = record(&["--ring", "5"], &["touch", "ran"]).env("MEMREEL", "all,ring=6").run();
    assert_eq!(twice.status, Some(2), "{}", twice.err);
    assert!(twice.err.contains("ring") && twice.files().is_empty(), "{}", twice.err);
    let none = Start::of(env!("CARGO_BIN_EXE_memreel"), &["record"]).run();
    assert_eq!(none.status, Some(2), "{}", none.err);
}

#[test]
fn a_missing_library_or_folder_is_3_before_the_program_runs() {
    const BUILD: &str = "`cargo build --profile shared -p memreel-preload -p memreel-heap`";
    let start = record(&[], &["touch", "ran"]);
    let folder = start.path("");
    let run = start.env("MEMREEL_PRELOAD", &folder).run();
    assert_eq!(run.status, Some(3));
    assert!(run.err.starts_with("memreel: libmemreel_preload.so was not found ("), "{}", run.err);
    assert!(run.err.contains(BUILD) && run.files().is_empty(), "{}", run.err);
    // Only the library of the heap is missing.
    let start = record(&["--heap"], &["touch", "ran"]);
    let folder = start.path("libraries");
    fs::create_dir(&folder).unwrap();
    fs::copy(libraries().join("libmemreel_preload.so"), folder.join("libmemreel_preload.so")).unwrap();
    let run = start.env("MEMREEL_PRELOAD", &folder).run();
    assert_eq!(run.status, Some(3));
    assert!(run.err.starts_with("memreel: libmemreel_heap.so was not found ("), "{}", run.err);
    assert!(run.err.contains(BUILD), "{}", run.err);
    assert_eq!(run.files(), ["libraries"]);
    for output in ["missing/run.pickle", "/proc/run.pickle"] {
        let run = record(&["-o", output], &["touch", "ran"]).run();
        let folder = output.strip_suffix("/run.pickle").unwrap();
        assert_eq!(run.status, Some(3), "{}", run.err);
        assert!(run.err.starts_with(&format!("memreel: cannot write {folder}: ")), "{}", run.err);
        assert!(run.files().is_empty());
    }
}

#[test]
fn streams_are_those_of_the_program() {
    let mut start = record(&[], &["sh", "-c", "cat; echo wrong >&2"]);
    let mut child = start.command.stdin(Stdio::piped()).spawn().unwrap();
    let text: Vec<u8> = (0..1_000_000_u32).map(|n| b'a' + (n % 26) as u8).collect();
    let (mut pipe, sent) = (child.stdin.take().unwrap(), text.clone());
    let writer = thread::spawn(move || pipe.write_all(&sent));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.stdout == text, "{} bytes", output.stdout.len());
    let run = start.ended(output);
    assert_eq!(run.err, format!("wrong\nmemreel: sh {IDLE}"));
}

/// Runs a program by a shell that prepares its own process first, plain and recorded, and compares all but the lines of memreel.
fn assert_same(prepare: &str, program: &str) -> Run {
    let [plain, recorded] = ["", "memreel record --heap -o run.pickle --"].map(|memreel| {
        let memreel = memreel.replacen("memreel", env!("CARGO_BIN_EXE_memreel"), 1);
        Start::of("sh", &["-c", &format!("{prepare} exec {memreel} {program}")]).run()
    });
    let lines = |run: &Run| -> Vec<String> {
        let lines = run.err.lines().filter(|line| !line.starts_with("memreel: ")).map(str::to_owned);
        lines.take_while(|line| !line.is_empty()).collect()
    };
    assert_eq!(
        (recorded.status, &recorded.out),
        (plain.status, &plain.out),
        "{prepare} {program}: {}",
        recorded.err
    );
    assert!(lines(&recorded).starts_with(&lines(&plain)), "{prepare} {program}: {}", recorded.err);
    recorded
}

/// Whatever the caller ignores, as the parents of daemons do, the program ignores it, and its status is known.
#[test]
fn what_the_caller_ignores_is_ignored_and_changes_no_status() {
    const ALL: &str = "HUP INT QUIT PIPE TERM USR1 USR2 CHLD ALRM TSTP TTIN TTOU XFSZ XCPU WINCH BUS";
    for signals in ["CHLD", "PIPE", ALL] {
        let prepare = format!("trap '' {signals};");
        // Without the C library's own signals, which differ by how a program was started.
        assert_same(&prepare, r"sed -n '/^Sig[IB]/s/.*\(.......\)$/\1/p' /proc/self/status");
        let run = assert_same(&prepare, "sh -c 'exit 3'");
        assert!(!run.err.contains("cannot wait"), "{}", run.err);
        run.snapshot("run.pickle");
    }
}

#[test]
fn signals_that_the_caller_blocks_are_blocked() {
    let Some(python) = super::python() else { return };
    let block = "import os, signal as s, sys; s.pthread_sigmask(s.SIG_BLOCK, [s.SIGUSR1, s.SIGALRM, s.SIGCHLD]); os.execvp(sys.argv[1], sys.argv[1:])";
    let words = ["grep", "SigBlk", "/proc/self/status"];
    let plain = Start::of(&python, &[&["-c", block], &words[..]].concat()).run();
    let memreel = [env!("CARGO_BIN_EXE_memreel"), "record", "--heap", "--"];
    let run = Start::of(&python, &[&["-c", block], &memreel[..], &words[..]].concat()).run();
    assert_eq!((run.status, &run.out), (Some(0), &plain.out), "{}", run.err);
    assert!(!run.out.contains("0000000000000000"), "{}", run.out);
}

#[test]
fn a_stream_that_is_closed_is_closed_for_the_program() {
    for (program, status) in [
        ("cat <&-", 1),
        ("sh -c 'echo hi' >&-", 1),
        ("sh -c 'echo hi >&2' 2>&-", 1),
        ("ls / <&- >&- 2>&-", 2),
    ] {
        let run = assert_same("", program);
        assert!(
            run.status == Some(status) || status == 1 && run.status == Some(2),
            "{program}: {:?}",
            run.status
        );
        run.snapshot("run.pickle");
    }
}

/// What saves may be killed at any moment: the tapes stay, and a line has the command that makes their snapshots.
#[test]
fn what_kills_the_saving_changes_no_status() {
    // The other child of this command.
    let kill = "for p in $(cat /proc/$PPID/task/$PPID/children); do [ $p = $$ ] || kill -KILL $p; done; ls /; exit 5";
    let run = record(&["--heap", "-o", "run.pickle"], &["sh", "-c", kill]).run();
    assert_eq!(run.status, Some(5), "{}", run.err);
    let line = "memreel: the process that saves snapshots ended early (signal: 9 (SIGKILL)); `memreel \
                recover ";
    assert!(run.err.starts_with(line), "{}", run.err);
    let command = run.err.split('`').nth(1).unwrap().replacen("memreel", env!("CARGO_BIN_EXE_memreel"), 1);
    let recovered = Command::new("sh").args(["-c", &command]).current_dir(&run.folder).output().unwrap();
    assert!(recovered.status.success(), "{command}: {recovered:?}");
    assert!(run.snapshots().len() >= 2, "{:?}", run.files());
    // When it was done already, nothing is left.
    let run = record(&["--heap"], &["true"]).run();
    assert_eq!(run.status, Some(0), "{}", run.err);
}

/// Limits of memory, of files, of processes and of time hold for what saves too.
#[test]
fn limits_change_no_status() {
    let pairs = format!("{} pairs 400000", program("program"));
    // 48 MiB: the tape fits, and not the snapshot. The unit is 512 bytes.
    let run = assert_same("ulimit -f 98304;", &pairs);
    assert!(run.err.contains("File too large") && run.err.contains("whose tape is "), "{}", run.err);
    assert!(!run.files().iter().any(|name| name.ends_with(".tmp")), "{:?}", run.files());
    for kib in [60_000, 80_000, 100_000, 200_000] {
        assert_same(&format!("ulimit -v {kib};"), "ls /");
    }
    assert_same("ulimit -t 60; ulimit -n 24;", "sh -c 'exit 4'");
}

/// Waits until a program has printed a line.
fn ready(child: &mut Child) -> BufReader<std::process::ChildStdout> {
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    out
}

#[test]
fn signals_reach_the_program() {
    const WAIT: &str = "n=0; echo ready; while [ $n -lt 500 ]; do sleep 0.02; n=$((n+1)); done";
    let traps = [
        ("INT", "trap 'echo caught; exit 9' INT", 9, "caught\n"),
        ("TERM", "trap 'exit 11' TERM", 11, ""),
        ("USR1", "trap 'exit 12' USR1", 12, ""),
        ("TERM", ":", 143, ""),
    ];
    for (signal, trap, status, says) in traps {
        let mut start = record(&[], &["sh", "-c", &format!("{trap}; {WAIT}")]);
        let mut child = start.spawn();
        let mut out = ready(&mut child);
        let kill = format!("kill -{signal} {}", child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert_eq!((child.wait().unwrap().code(), &*rest), (Some(status), says), "{signal} {trap}");
    }
}

/// The thread that keeps the tape must not get a signal for which the program waits.
#[test]
fn a_program_takes_the_signals_that_it_blocks() {
    let run = record(&["--heap"], &[&program("program"), "waits"]).run();
    assert_eq!(run.status, Some(0), "{}", run.err);
}

/// The saving takes seconds: a tape has very many events.
#[test]
fn a_signal_ends_the_saving_and_keeps_the_tapes() {
    for (signal, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let script = format!("{} pairs 1000000 >/dev/null; echo ready; echo $$", program("program"));
        let mut start = record(&["--heap", "-o", "run.pickle"], &["sh", "-c", &script]);
        let mut child = start.spawn();
        let mut process = String::new();
        // This command has the pipe too, so it does not end with the program.
        ready(&mut child).read_line(&mut process).unwrap();
        while Path::new("/proc").join(process.trim()).exists() {
            thread::sleep(Duration::from_millis(10));
        }
        // A signal that comes with the program's end is the program's.
        thread::sleep(Duration::from_millis(400));
        let (kill, begun) = (format!("kill -{signal} {}", child.id()), Instant::now());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let run = start.ended(child.wait_with_output().unwrap());
        let seconds = begun.elapsed().as_secs_f64();
        assert_eq!(run.status, Some(status), "{signal}: {}", run.err);
        assert!(seconds < 1.0, "{signal}: {seconds} s");
        assert!(run.err.starts_with("memreel: interrupted while saving snapshots; `"), "{}", run.err);
        let command = run.err.split('`').nth(1).unwrap_or_else(|| panic!("{}", run.err));
        let (program, arguments) = command.split_once(' ').unwrap();
        assert_eq!(program, "memreel");
        let recover = format!("{} {arguments}", env!("CARGO_BIN_EXE_memreel"));
        let recovered = Command::new("sh").args(["-c", &recover]).current_dir(&run.folder).output().unwrap();
        assert!(recovered.status.success(), "{command}: {recovered:?}");
        let made: Vec<String> = run.files().into_iter().filter(|name| name.ends_with(".pickle")).collect();
        assert_eq!(made.len(), 2, "{made:?}");
    }
}

/// The reader of standard error may have ended.
#[test]
fn a_closed_standard_error_loses_no_snapshot() {
    let mut start = record(&["--heap", "-o", "run.pickle"], &["sh", "-c", "ls; ls; ls; exit 7"]);
    // There is a line before the program runs.
    start.command.env("MEMREEL_PYTHON_HOOK", "missing");
    let mut child = start.spawn();
    drop(child.stderr.take());
    let run = start.ended(child.wait_with_output().unwrap());
    assert_eq!(run.status, Some(7));
    let files = run.files();
    assert_eq!(files.iter().filter(|name| name.starts_with("run")).count(), 4, "{files:?}");
    assert_eq!(files.len(), 4, "no tape is left: {files:?}");
    run.snapshots();
}

/// The terminal sends Ctrl-C to the program itself, so it is not passed on too.
#[test]
fn a_terminal_interrupts_the_program_once() {
    if !has("setsid") {
        return;
    }
    let [near, far] = terminal(80);
    let script = "n=0; trap 'n=$((n+1))' INT; echo ready; i=0; while [ $n = 0 ] && [ $i -lt 500 ]; do sleep 0.02; i=$((i+1)); done; sleep 0.4; exit $n";
    let recorded = ["--ctty", "--wait", env!("CARGO_BIN_EXE_memreel"), "record", "--", "sh", "-c", script];
    let mut start = Start::of("setsid", &recorded);
    start.command.stdin(far);
    let mut child = start.spawn();
    let _out = ready(&mut child);
    fs::File::from(near.try_clone().unwrap()).write_all(b"\x03").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
