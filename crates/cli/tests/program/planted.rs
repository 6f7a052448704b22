//! Commands that write into a folder that everybody may write into, where another user has put links.

#![forbid(unsafe_code)]

use std::{
    env,
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Output},
};

use tempfile::TempDir;

use crate::{
    record::libraries,
    support::{fixture, memreel, stderr},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_memreel");

const OTHER: u32 = 65_534;

const FILE: &str = "torch-2.11/snapshots/expandable_wrapped_ring.pickle";

/// Stands for the file that is written, and for its folder.
const OUT: &str = "OUT";
const FOLDER: &str = "FOLDER";

/// Every command that reads snapshots and writes a file which its user names.
const WRITING: &[&[&str]] = &[
    &["fix", "-o", OUT, FILE],
    &["slim", "--events", "0..10", "-o", OUT, FILE],
    &["merge", "-o", OUT, FILE, FILE],
    &["split", "-o", FOLDER, FILE],
    &["convert", "--to", "json", "-o", OUT, FILE],
    &["convert", "--to", "csv", "-o", OUT, FILE],
    &["replay", "-o", OUT, FILE],
    &["flamegraph", "-o", OUT, FILE],
    &["report", "-o", OUT, FILE],
    &["view", "--html", OUT, FILE],
    &["ranks", "--html", OUT, FILE, FILE],
    &["timeline", "--svg", OUT, FILE],
    &["segments", "--svg", OUT, FILE],
    &["memory", "--svg", OUT, FILE],
    &["gate", "--max-peak", "1TiB", "--junit", OUT, FILE],
    &["gate", "--max-peak", "1TiB", "--baseline", OUT, "--update-baseline", FILE],
    &["man", "--to", FOLDER],
];

/// It makes the folder.
const MAKING: &[&str] = &["man", "--to", OUT];

/// It adds to the file that `GITHUB_STEP_SUMMARY` names.
const ADDING: &[&str] = &["report", "--summary", FILE];

/// What writes a file or a folder of tapes for a program that it runs.
const RECORDING: &[&[&str]] = &[
    &["record", "-o", OUT, "--", "true"],
    &["record", "--heap", "-o", OUT, "--", "cc", "--version"],
    &["record", "--heap", "--tapes", FOLDER, "--keep-tape", "-o", OUT, "--", "cc", "--version"],
];

/// A folder that everybody may write into, and one of this user's own with a file.
struct Shared {
    folder: TempDir,
    own: TempDir,
}

impl Shared {
    fn new() -> Shared {
        let [folder, own] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
        fs::write(own.path().join("keys"), "precious").unwrap();
        Shared { folder, own }
    }

    /// Plants a link to the own folder; `None` if this user may not.
    fn plant(&self) -> Option<PathBuf> {
        let link = self.folder.path().join("planted");
        symlink(self.own.path(), &link).unwrap();
        match lchown(&link, Some(OTHER), None) {
            Ok(()) => Some(link),
            Err(error) => {
                println!("skipped: cannot make a link of another user: {error}");
                None
            }
        }
    }

    fn is_whole(&self) -> bool {
        let names = fs::read_dir(self.own.path()).unwrap().count();
        names == 1 && fs::read_to_string(self.own.path().join("keys")).unwrap() == "precious"
    }
}

/// Returns a command that writes a file of this name into a folder.
fn writing<'w>(words: &'w [&'w str], folder: &'w Path, name: &str) -> Vec<String> {
    let word = |word: &&str| match *word {
        OUT => folder.join(name).display().to_string(),
        FOLDER => folder.display().to_string(),
        other => other.to_owned(),
    };
    words.iter().map(word).collect()
}

fn run(words: &[String]) -> Output {
    memreel(&words.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap()
}

/// Has a command write this file.
fn write_to(command: &mut Command, words: &[&str], folder: &Path, name: &str) -> Output {
    command.args(writing(words, folder, name)).current_dir(fixture(""));
    command.env("GITHUB_STEP_SUMMARY", folder.join(name)).env_remove("TMPDIR").env_remove("XDG_RUNTIME_DIR");
    if words.contains(&"--heap") {
        // The program writes a file too.
        command.env("MEMREEL", "dump=exit");
    }
    command.env("MEMREEL_PRELOAD", libraries()).output().unwrap()
}

#[test]
fn no_command_follows_a_link_that_another_user_planted() {
    let shared = Shared::new();
    let Some(link) = shared.plant() else { return };
    for words in WRITING.iter().chain([&MAKING, &ADDING]).chain(RECORDING) {
        for name in ["keys", "new"] {
            let output = write_to(&mut Command::new(PROGRAM), words, &link, name);
            let message = stderr(&output);
            assert_eq!(output.status.code(), Some(3), "{words:?}: {message}");
            assert!(
                message.contains(&format!("is a link of another user (uid {OTHER})")),
                "{words:?}: {message}"
            );
            assert!(shared.is_whole(), "{words:?}");
        }
    }
}

/// Runs a program that records its heap as a variable says. Returns what it prints.
fn recorded(variables: &[(&str, String)]) -> String {
    let library = |name: &str| libraries().join(name).display().to_string();
    let preloaded = ["libmemreel_heap.so", "libmemreel_preload.so"].map(library).join(":");
    // It leaves standard error open at its end.
    let mut command = Command::new("cc");
    command.arg("--version").env("LD_PRELOAD", preloaded).envs(variables.iter().cloned());
    stderr(&command.output().unwrap()).to_owned()
}

#[test]
fn a_recorded_program_follows_no_link_either() {
    let shared = Shared::new();
    let file = |folder: &Path, name: &str| folder.join(name).display().to_string();
    let own = shared.folder.path();
    let dumps = |path: String| [("MEMREEL", format!("all,dump=exit,file={path}"))];
    let tape = |path: String| [("MEMREEL", "all".to_owned()), ("MEMREEL_TAPE", path)];
    // This user's own folders are made.
    let said = recorded(&dumps(file(own, "new/run.pickle"))) + &recorded(&tape(file(own, "newer/run.tape")));
    assert!(own.join("new/run.pickle").is_file() && own.join("newer/run.tape").is_file(), "{said}");
    let Some(link) = shared.plant() else { return };
    for path in ["keys", "new", "folder/new"].map(|name| file(&link, name)) {
        for variables in [&dumps(path.clone())[..], &tape(path)] {
            let said = recorded(variables);
            assert!(
                said.contains(&format!("is a link of another user (uid {OTHER})")),
                "{variables:?}: {said}"
            );
            assert!(shared.is_whole(), "{variables:?}");
        }
    }
    // An empty file of another user is no name that this user took.
    let taken = own.join("taken.tape");
    fs::write(&taken, "").unwrap();
    lchown(&taken, Some(OTHER), None).unwrap();
    let said = recorded(&tape(file(own, "taken.tape")));
    let found = fs::metadata(&taken).unwrap();
    assert!(found.uid() != OTHER && found.len() > 0, "{said}");
    assert_eq!(fs::metadata(own.join("taken.tape.old")).unwrap().uid(), OTHER);
}

/// A process that `memreel attach` finds a CPython in.
struct Target(Child);

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "needs python3"]
fn attach_to_a_cpython_follows_no_link_either() {
    let shared = Shared::new();
    let Some(link) = shared.plant() else { return };
    let target = Command::new("/usr/bin/python3").args(["-c", "import time; time.sleep(1000)"]).spawn();
    let target = Target(target.expect("a python3"));
    std::thread::sleep(std::time::Duration::from_millis(300));
    let output = run(&writing(&["attach", &target.0.id().to_string(), "-o", OUT], &link, "keys"));
    let message = stderr(&output);
    assert!(message.contains(&format!("is a link of another user (uid {OTHER})")), "{message}");
    assert!(shared.is_whole());
    // A device is not replaced by a file.
    let output =
        run(&["attach", &target.0.id().to_string(), "-o", "/dev/null", "--wait", "1ms"].map(str::to_owned));
    assert_ne!(output.status.code(), Some(0));
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn a_file_that_another_user_put_there_gets_no_summary() {
    let shared = Shared::new();
    let file = shared.folder.path().join("summary");
    fs::write(&file, "of another").unwrap();
    if lchown(&file, Some(OTHER), None).is_ok() {
        let output = write_to(&mut Command::new(PROGRAM), ADDING, shared.folder.path(), "summary");
        assert_eq!(output.status.code(), Some(3));
        assert!(stderr(&output).contains("is a file of another user"), "{}", stderr(&output));
        assert_eq!(fs::read_to_string(&file).unwrap(), "of another");
    }
    fs::remove_file(&file).unwrap();
    let [once, twice] = [(); 2].map(|()| {
        let output = write_to(&mut Command::new(PROGRAM), ADDING, shared.folder.path(), "summary");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        fs::read_to_string(&file).unwrap()
    });
    assert!(!once.is_empty() && twice == format!("{once}{once}"), "{twice}");
}

/// What strace wrote of a command that wrote into a folder.
struct Trace {
    shared: Shared,
    text: String,
}

impl Trace {
    /// Runs a command under strace, which must end with this status.
    fn of(words: &[&str], name: &str, status: i32) -> Trace {
        let shared = Shared::new();
        let log = shared.own.path().join("log");
        let mut command = Command::new(strace());
        command.args(["-f", "-qq", "-e", "trace=%file,openat,openat2,renameat,renameat2,unlinkat", "-o"]);
        command.arg(&log);
        if words[0] == "attach" {
            // gdb cannot trace under strace.
            command.args(["-b", "execve"]);
        }
        command.arg(PROGRAM);
        let output = write_to(&mut command, words, shared.folder.path(), name);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {}", stderr(&output));
        let text = fs::read_to_string(&log).unwrap();
        Trace { shared, text }
    }

    /// The calls that write, make, rename or remove by a path. What is in the folder of a run is its user's alone.
    fn by_path(&self) -> Vec<&str> {
        let folder = self.shared.folder.path().to_str().unwrap();
        let of_run = format!("{folder}/.memreel-record-");
        let flags = ["O_CREAT", "O_TRUNC", "O_WRONLY", "O_RDWR", "O_APPEND"];
        let calls =
            ["rename", "unlink", "rmdir", "mkdir", "chmod", "chown", "link(", "linkat(", "truncate", "mknod"];
        let writes = |line: &&str| {
            flags.iter().chain(&calls).any(|word| line.contains(word))
                && !["execve(", "readlink"].iter().any(|read| line.contains(read))
        };
        // The folder of the run itself is not in it.
        let is_in_run = |line: &&str| {
            line.match_indices(&of_run).any(|(at, _)| {
                line[at + of_run.len()..].split('"').next().is_some_and(|rest| rest.contains('/'))
            })
        };
        let lines = self.text.lines().filter(writes).filter(|line| line.contains(folder));
        lines.filter(|line| !is_in_run(line)).collect()
    }

    /// How often a file got its name.
    fn n_renamed(&self) -> usize {
        self.text.lines().filter(|line| line.contains("renameat(") || line.contains("renameat2(")).count()
    }

    /// How often a file was made under a temporary name.
    fn n_begun(&self) -> usize {
        let is_new = |line: &&str| {
            line.contains("O_CREAT|O_EXCL") && line.contains("O_NOFOLLOW") && line.contains(".memreel-")
        };
        self.text.lines().filter(is_new).count()
    }
}

fn strace() -> String {
    env::var("MEMREEL_STRACE").unwrap_or_else(|_| "strace".to_owned())
}

fn can_trace() -> bool {
    let can = Command::new(strace())
        .args(["-o", "/dev/null", "true"])
        .output()
        .is_ok_and(|found| found.status.success());
    if !can {
        println!("skipped: there is no strace that may trace programs");
    }
    can
}

/// Each part of a path is looked at once, and what is made, renamed and removed is named in a folder that is open.
#[test]
#[ignore = "needs strace"]
fn a_path_is_resolved_once() {
    if !can_trace() {
        return;
    }
    for words in WRITING.iter().chain([&MAKING]) {
        let trace = Trace::of(words, "out", 0);
        assert_eq!(trace.by_path(), [""; 0], "{words:?}");
        assert!(trace.n_renamed() > 0 && trace.n_begun() == trace.n_renamed(), "{words:?}: {}", trace.text);
    }
    let trace = Trace::of(ADDING, "out", 0);
    assert_eq!(trace.by_path(), [""; 0]);
    assert!(trace.text.contains("\"out\", O_RDWR|O_CREAT|O_EXCL"), "{}", trace.text);
}

#[test]
#[ignore = "needs strace"]
fn a_path_of_a_run_is_resolved_once() {
    if !can_trace() {
        return;
    }
    for words in RECORDING {
        let trace = Trace::of(words, "out", 0);
        assert_eq!(trace.by_path(), [""; 0], "{words:?}");
        let is_written = words.contains(&"--heap");
        assert_eq!(trace.n_renamed() > 0, is_written, "{words:?}: {}", trace.text);
        assert!(trace.text.contains("mkdirat("), "{words:?}: the folder of the run");
    }
    let tapes = Shared::new();
    let words = ["record", "--heap", "--tapes", FOLDER, "--keep-tape", "-o", OUT, "--", "cc", "--version"];
    let output = write_to(&mut Command::new(PROGRAM), &words, tapes.folder.path(), "out");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let folders = fs::read_dir(tapes.folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let run = folders.into_iter().find(|path| path.is_dir()).unwrap();
    let files = fs::read_dir(run).unwrap().map(|entry| entry.unwrap().path());
    let tape = files.into_iter().find(|path| path.extension().is_some_and(|of| of == "tape")).unwrap();
    for out in [OUT, FOLDER] {
        let trace = Trace::of(&["recover", "-o", out, tape.to_str().unwrap()], "out", 0);
        assert_eq!(trace.by_path(), [""; 0]);
        assert!(trace.n_renamed() == 1 && trace.n_begun() == 1, "{}", trace.text);
    }
}

#[test]
#[ignore = "needs strace and python3"]
fn a_path_of_attach_to_a_cpython_is_resolved_once() {
    if !can_trace() {
        return;
    }
    let target = Command::new("/usr/bin/python3").args(["-c", "import time; time.sleep(1000)"]).spawn();
    let Ok(target) = target.map(Target) else { return println!("skipped: there is no python3") };
    std::thread::sleep(std::time::Duration::from_millis(300));
    // It has no PyTorch, so what was begun is removed.
    let trace = Trace::of(&["attach", &target.0.id().to_string(), "-o", OUT, "--wait", "1s"], "out", 3);
    assert_eq!(trace.by_path(), [""; 0]);
    assert!(trace.n_begun() == 1 && trace.n_renamed() == 0, "{}", trace.text);
}
