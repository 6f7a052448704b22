//! A process that records into a tape, and what it has printed.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
};

use memreel::Recovered;

use crate::crash::N_THREADS;

/// A process that records.
pub(crate) struct Run {
    folder: tempfile::TempDir,
    child: Child,
    output: BufReader<ChildStdout>,
    lines: Vec<String>,
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

    fn of(mut command: Command, args: &[&str]) -> Run {
        let folder = tempfile::tempdir().unwrap();
        let tape = folder.path().join("run.tape");
        command.args(["--tape", tape.to_str().unwrap()]).args(args);
        let errors = File::create(folder.path().join("errors")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Run { folder, child, output, lines: Vec::new() }
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

    /// Reads its tape.
    pub(crate) fn recovered(&self) -> Recovered {
        Recovered::read(self.tape()).unwrap()
    }
}
