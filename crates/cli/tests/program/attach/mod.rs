//! `memreel attach`: programs of each CPython, with a stand-in for PyTorch (`torch.py`), that run already.

#![forbid(unsafe_code)]

mod hostile;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use memreel_snapshot::{Snapshot, pickle};
use memreel_testing::interpreters;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{
    repository,
    support::{memreel, run, stderr, stdout},
};

/// How long anything may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// The program `program.py` while it runs.
struct Running {
    child: Child,
    said: BufReader<ChildStdout>,
    folder: TempDir,
}

fn source(name: &str) -> PathBuf {
    repository("crates/cli/tests/program/attach").join(name)
}

fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process.try_into().unwrap()).unwrap(), signal).unwrap();
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn start(python: &Path, kind: &str) -> Running {
        Running::start_with(Command::new(python).arg(source("program.py")), kind)
    }

    fn start_with(command: &mut Command, kind: &str) -> Running {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("calls"), "").unwrap();
        command.arg(kind).arg(folder.path()).env("CALLS", folder.path().join("calls"));
        command.env("PYTHONDONTWRITEBYTECODE", "1").stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Running { child, said, folder }
    }

    fn touch(&self, name: &str) {
        fs::write(self.folder.path().join(name), "").unwrap();
    }

    fn process(&self) -> String {
        self.child.id().to_string()
    }

    fn output(&self) -> PathBuf {
        self.folder.path().join("out.pickle")
    }

    /// Returns the command that attaches to it.
    fn attach(&self, options: &[&str]) -> Command {
        let mut command = memreel(&["attach", &self.process(), "-o"]);
        command.arg(self.output()).args(options).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts to attach, and waits until it records.
    fn attached(&self) -> (Child, BufReader<ChildStderr>) {
        let mut child = self.attach(&[]).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains(" records"), "{line}");
        (child, said)
    }

    /// Returns what torch was asked for by this process.
    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.folder.path().join("calls")).unwrap();
        let of_process = format!("{} ", self.child.id());
        calls.lines().filter_map(|line| line.strip_prefix(&of_process)).map(str::to_owned).collect()
    }

    /// Ends it, and returns what it says.
    fn end(&mut self) -> String {
        self.touch("stop");
        let mut text = String::new();
        while self.said.read_line(&mut text).unwrap() > 0 {}
        assert!(self.child.wait().unwrap().success());
        text
    }

    fn snapshot(&self) -> Snapshot {
        pickle::load(self.output()).unwrap()
    }
}

fn n_events(snapshot: &Snapshot) -> usize {
    snapshot.device_traces.iter().map(Vec::len).sum()
}

fn is_before_314(version: &str) -> bool {
    version.split('.').nth(1).is_some_and(|minor| minor.parse::<u8>().unwrap() < 14)
}

/// Returns an interpreter that gdb attaches to.
fn python() -> PathBuf {
    interpreters()
        .into_iter()
        .rev()
        .find(|(version, _)| is_before_314(version))
        .expect("a CPython before 3.14")
        .1
}

const LEFT_NOTHING: &str = "new in sys: []\nmain: []\nhistory: False False\n";

#[test]
#[ignore = "needs python3 and gdb"]
fn a_cpython_is_attached_to_and_left_as_it_was() {
    let interpreters = interpreters();
    assert!(!interpreters.is_empty(), "no CPython of 3.9 or later was found");
    // All at once, because they wait for most of the time.
    thread::scope(|scope| {
        for (version, python) in &interpreters {
            scope.spawn(move || {
                for kind in ["busy", "locked", "asleep", "queued", "receiving", "polling"] {
                    attach_and_leave(version, python, kind);
                }
            });
        }
    });
}

fn attach_and_leave(version: &str, python: &Path, kind: &str) {
    println!("{version} {kind}");
    let mut running = Running::start(python, kind);
    let output = running.attach(&["--for", "300ms"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{version} {kind}: {}", stderr(&output));
    let text = stdout(&output);
    for part in [
        "device 0, older blocks: ",
        "1.00 GiB reserved",
        "at the end: 2.00 GiB of the 3.00 GiB",
        "PyTorch's history is off, as before",
        &format!("next: memreel {}", running.output().display()),
    ] {
        assert!(text.contains(part), "{version} {kind}: {part}: {text}");
    }
    assert_eq!(
        running.calls(),
        ["record all all python 250000", "snapshot False", "record None all all 99"],
        "{version} {kind}"
    );
    let snapshot = running.snapshot();
    assert_eq!(n_events(&snapshot) > 0, kind == "busy", "{version} {kind}");
    assert!(text.contains(&format!(": {} event", n_events(&snapshot))), "{version} {kind}: {text}");
    let answer = run(&["summary", running.output().to_str().unwrap()]);
    assert!(answer.status.success(), "{version} {kind}: {}", stderr(&answer));
    let left = running.folder.path().read_dir().unwrap().count();
    assert_eq!(left, 2, "the calls and the snapshot, and no temporary file");
    // Once more, after it was left.
    let again = running.attach(&["--for", "10ms"]).output().unwrap();
    assert_eq!(again.status.code(), Some(0), "{version} {kind}: {}", stderr(&again));
    assert_eq!(running.end(), LEFT_NOTHING, "{version} {kind}");
}

#[test]
#[ignore = "needs python3 and gdb"]
fn a_cpython_sends_it_at_a_signal_or_at_its_end() {
    let python = python();
    let mut running = Running::start(&python, "busy");
    let (child, _) = running.attached();
    // One at a time.
    let second = running.attach(&["--for", "10ms"]).output().unwrap();
    assert_eq!(second.status.code(), Some(2), "{}", stderr(&second));
    assert!(stderr(&second).contains("another `memreel attach`"), "{}", stderr(&second));
    signal(child.id(), Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(n_events(&running.snapshot()) > 0);
    assert_eq!(running.end(), LEFT_NOTHING);

    // Two at once: one is served, and the other is told so.
    let mut running = Running::start(&python, "busy");
    let two = [(); 2].map(|()| running.attach(&["--for", "2s"]).spawn().unwrap());
    let mut ended = two.map(|child| child.wait_with_output().unwrap());
    ended.sort_by_key(|output| output.status.code());
    assert_eq!(ended.each_ref().map(|output| output.status.code()), [Some(0), Some(2)], "{ended:?}");
    assert!(stderr(&ended[1]).contains("another `memreel attach`"), "{}", stderr(&ended[1]));
    assert_eq!((running.calls().len(), &*running.end()), (3, LEFT_NOTHING));

    // In an import of a module that the script needs.
    let mut running = Running::start(&python, "importing");
    let output = running.attach(&["--for", "10ms"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!((running.calls().len(), &*running.end()), (3, LEFT_NOTHING));

    // Its end, also of one that forks.
    for kind in ["busy", "forks"] {
        let mut running = Running::start(&python, kind);
        let (child, _) = running.attached();
        running.touch("stop");
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && stdout(&output).contains("up to its end"), "{}", stdout(&output));
        // It may have ended before its next event.
        assert!(stdout(&output).contains(&format!(": {} event", n_events(&running.snapshot()))));
        running.end();
    }
}

#[test]
#[ignore = "needs python3 and gdb"]
fn a_cpython_is_left_when_either_side_is_killed() {
    let python = python();
    let mut running = Running::start(&python, "busy");
    let (mut child, _) = running.attached();
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("its history goes off", || running.calls().len() == 2);
    assert_eq!(running.calls()[1], "record None all all 99");
    assert!(!running.output().exists());
    assert_eq!(running.end(), LEFT_NOTHING);

    let mut running = Running::start(&python, "busy");
    let (child, mut errors) = running.attached();
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    let status = child.wait_with_output().unwrap().status;
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert_eq!(status.code(), Some(3), "{line}");
    assert!(line.contains("has ended, without a snapshot"), "{line}");
    assert!(!running.output().exists());
}

#[test]
#[ignore = "needs python3 and gdb"]
fn a_cpython_keeps_the_history_that_it_has_and_is_awaited() {
    let python = python();
    let mut running = Running::start(&python, "recording");
    let output = running.attach(&["--for", "50ms"]).output().unwrap();
    assert!(output.status.success() && stderr(&output).contains("already records"), "{}", stderr(&output));
    assert!(stdout(&output).contains("as the program set it"), "{}", stdout(&output));
    assert_eq!(running.calls(), ["record all all all 99", "snapshot False"]);
    assert_eq!(running.end(), "new in sys: []\nmain: []\nhistory: True False\n");

    let mut running = Running::start(&python, "late");
    let (child, _) = running.attached();
    assert_eq!(running.calls(), [""; 0], "CUDA is not initialised by memreel");
    running.touch("begin");
    wait_for("the history", || !running.calls().is_empty());
    signal(child.id(), Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(running.end(), LEFT_NOTHING);

    // Never used: there is nothing to write.
    let mut running = Running::start(&python, "late");
    let output = running.attach(&["--for", "50ms"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("did not use CUDA"), "{}", stderr(&output));
    running.touch("begin");
    let text = running.end();
    assert_eq!((running.calls(), &*text), (Vec::new(), LEFT_NOTHING), "what waited for CUDA is over");
}

#[test]
#[ignore = "needs python3 and gdb"]
fn a_cpython_that_does_not_answer_is_given_up() {
    let mut running = Running::start(&python(), "held");
    let output = running.attach(&["--wait", "200ms"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    for part in ["did not answer within", "the request has expired"] {
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
    assert!(!running.output().exists());
    let text = running.end();
    assert_eq!((running.calls(), &*text), (Vec::new(), LEFT_NOTHING), "it ran later, and did nothing");

    // Without gdb, a wait is not interrupted.
    let Some(python) = interpreters().into_iter().find(|(version, _)| !is_before_314(version)) else {
        return;
    };
    let mut running = Running::start(&python.1, "asleep");
    let output = running.attach(&["--wait", "2s"]).env("PATH", "/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("or gdb, which is not installed"), "{}", stderr(&output));
    let text = running.end();
    assert_eq!((running.calls(), &*text), (Vec::new(), LEFT_NOTHING), "it ran later, and did nothing");
}

#[test]
#[ignore = "needs python3 and gdb"]
fn a_cpython_without_a_history_is_refused() {
    let python = python();
    let mut running = Running::start(&python, "plain");
    let output = running.attach(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("PyTorch is not loaded in it"), "{}", stderr(&output));
    assert_eq!(running.end(), "new in sys: []\nmain: []\n");

    let mut command = Command::new(&python);
    let mut running = Running::start_with(command.arg(source("program.py")).env("NO_HISTORY", "1"), "busy");
    let output = running.attach(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("does not yet support recordHistory"), "{}", stderr(&output));
    assert_eq!(running.end(), LEFT_NOTHING);

    // Without gdb.
    let mut running = Running::start(&python, "plain");
    let output = running.attach(&[]).env("PATH", "/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("needs gdb; gdb is not installed"), "{}", stderr(&output));
    running.end();
}

#[test]
fn what_cannot_be_attached_to_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let other = child.id().to_string();
    let output = folder.path().join("o.pickle").display().to_string();
    for (words, status, message) in [
        (vec!["999999999"], 3, "there is no process 999999999"),
        (vec![&*other], 2, "is not CPython"),
        (vec!["0"], 3, "there is no process 0"),
        (vec!["x"], 2, "invalid value"),
        (vec![&*other, "--for", "60"], 2, "is not a time"),
        (vec![&*other, "--wait", "0s"], 2, "is not a time"),
        (vec![&*other, "--ring", "1"], 2, "1 is not in"),
    ] {
        let answer = run(&[&["attach", "-o", &output], &*words].concat());
        assert_eq!(answer.status.code(), Some(status), "{words:?}: {}", stderr(&answer));
        assert!(stderr(&answer).contains(message), "{words:?}: {}", stderr(&answer));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}
