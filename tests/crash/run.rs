//! A process that records into a tape, and what it has printed.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use memreel::{Recovered, TapeKeeper};

use crate::{btrfs::Btrfs, cgroup::Cgroup, crash::N_THREADS};

/// A process that records.
pub(crate) struct Run {
    folder: tempfile::TempDir,
    child: Child,
    output: BufReader<ChildStdout>,
    lines: Vec<String>,
}

/// A thread that keeps a tape.
pub(crate) struct Keeper {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.end.take());
        self.thread.take().map(JoinHandle::join).transpose().expect("the keeper did not panic");
    }
}

impl Run {
    /// Starts it.
    pub(crate) fn start(args: &[&str]) -> Run {
        Run::of(Command::new(std::env::current_exe().unwrap()), args)
    }

    /// Starts it with a limit of its address space.
    pub(crate) fn start_limited(args: &[&str], limit_kib: u64) -> Run {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -v {limit_kib}; exec \"$0\" \"$@\"")]);
        command.arg(std::env::current_exe().unwrap());
        Run::of(command, args)
    }

    /// Starts it in a cgroup.
    pub(crate) fn start_in(group: &Cgroup, args: &[&str]) -> Run {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$GROUP\"; exec \"$0\" \"$@\""]).env("GROUP", group.processes());
        command.arg(std::env::current_exe().unwrap());
        Run::of(command, args)
    }

    /// Runs it to its end with its tape on a file system of `mib` MiB, and copies the tape from there. `None` where a
    /// process may not mount one.
    pub(crate) fn on_small_disk(args: &[&str], mib: u64) -> Option<Run> {
        let folder = tempfile::tempdir().unwrap();
        let mount = format!("mount -t tmpfs -o size={mib}m memreel '{}'", folder.path().display());
        let alone = |script: &str| {
            let mut command = Command::new("unshare");
            command.args(["-Urm", "sh", "-c", script]);
            command
        };
        if !alone(&mount).status().is_ok_and(|status| status.success()) {
            return None;
        }
        // `$0` is the program, `$2` the path of its tape.
        let disk = folder.path().display();
        let script = format!(
            "{mount}; to=$2; shift 2; \"$0\" --tape '{disk}/run.tape' \"$@\"; cp '{disk}/run.tape' \"$to\""
        );
        let mut command = alone(&script);
        command.arg(std::env::current_exe().unwrap());
        let mut run = Run::of(command, args);
        run.wait();
        Some(run)
    }

    /// Starts it with its tape on a file system of btrfs. `None` where one cannot be made and mounted.
    pub(crate) fn on_btrfs(args: &[&str]) -> Option<(Run, Btrfs)> {
        let folder = tempfile::tempdir().unwrap();
        let disk = Btrfs::mount(folder.path())?;
        let run = Run::in_folder(Command::new(std::env::current_exe().unwrap()), args, folder);
        Some((run, disk))
    }

    fn of(command: Command, args: &[&str]) -> Run {
        Run::in_folder(command, args, tempfile::tempdir().unwrap())
    }

    fn in_folder(mut command: Command, args: &[&str], folder: tempfile::TempDir) -> Run {
        let tape = folder.path().join("run.tape");
        command.args(["--tape", tape.to_str().unwrap()]).args(args);
        let errors = File::create(folder.path().join("errors")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Run { folder, child, output, lines: Vec::new() }
    }

    /// Keeps its tape until the value is dropped.
    pub(crate) fn keep(&self) -> Keeper {
        let mut keeper = TapeKeeper::attach(self.tape()).unwrap();
        let (end, is_over) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            while is_over.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Timeout) {
                keeper.keep();
            }
        });
        Keeper { end: Some(end), thread: Some(thread) }
    }

    fn tape(&self) -> PathBuf {
        self.folder.path().join("run.tape")
    }

    /// Waits until it has printed so many lines, at least one.
    pub(crate) fn read_lines(&mut self, n: u64) {
        for _ in 0..=n {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it ended");
            self.lines.push(line);
        }
    }

    /// Kills it, and reads what it had printed.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        assert_eq!(self.wait().signal(), Some(9));
    }

    /// Waits for its end, and reads what it printed.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        // A line without its end was not acknowledged.
        self.lines.extend(rest.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(str::to_owned));
        self.child.wait().unwrap()
    }

    /// Returns how many allocations of each thread were acknowledged.
    pub(crate) fn acknowledged(&self) -> Vec<u64> {
        let mut acknowledged = vec![0; N_THREADS as usize];
        for line in &self.lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            let ["acknowledged", thread, n] = words[..] else { panic!("{line}") };
            acknowledged[thread.parse::<usize>().unwrap()] = n.parse().unwrap();
        }
        acknowledged
    }

    /// Returns what it printed on standard error.
    pub(crate) fn errors(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("errors")).unwrap()
    }

    /// Reads its tape.
    pub(crate) fn recovered(&self) -> Recovered {
        Recovered::read(self.tape()).unwrap()
    }
}
