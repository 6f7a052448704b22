//! Runs a question as a process: the program with the words of a command line, and limits.

#![forbid(unsafe_code)]

use std::{
    ffi::OsString,
    io,
    process::{ExitStatus, Stdio},
};

use rustix::process::Pid;
use tokio::{process::Command, time::timeout};

use crate::{
    limits::Limits,
    output::{self, Output},
};

/// The most bytes of a message on standard error.
const MAX_MESSAGE_BYTES: usize = 4096;

/// The number of bytes read per character of an answer: JSON may need six for one.
const BYTES_A_CHAR: usize = 6;

/// How a question ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` if it ran out of time.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) out: Output,
    pub(crate) err: Output,
}

/// Runs a program: the first word is its path. With a variable in its environment, if there is one. Skips the first lines of what it prints. It is killed when the time is over,
/// and when the returned future is dropped.
///
/// # Errors
/// The program cannot be started, or its limits cannot be set.
pub(crate) async fn run(
    (words, variable): (&[OsString], &Option<(&str, OsString)>),
    n_skipped: u64,
    limits: &Limits,
) -> io::Result<Ended> {
    let [program, words @ ..] = words else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    // Python searches the working folder for modules, and a client's folder may contain anything.
    command.current_dir("/");
    command.env("NO_COLOR", "1").env("TERM", "dumb").env_remove("COLUMNS").env_remove("RUST_BACKTRACE");
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command.envs(variable.iter().cloned());
    let mut child = command.spawn()?;
    if let Some(process) = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)) {
        limits.set(process)?;
    }
    let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let n_kept = limits.max_answer_chars.saturating_mul(BYTES_A_CHAR);
    let all = async {
        let reads = async {
            tokio::join!(output::read(out, n_skipped, n_kept), output::read(err, 0, MAX_MESSAGE_BYTES))
        };
        let ((out, err), status) = tokio::join!(reads, child.wait());
        status.map(|status| Ended { status: Some(status), out, err })
    };
    match timeout(limits.timeout, all).await {
        Ok(ended) => ended,
        Err(_) => {
            child.kill().await?;
            Ok(Ended { status: None, out: Output::default(), err: Output::default() })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::*;

    const LIMITS: Limits =
        Limits { timeout: Duration::from_secs(60), max_memory_bytes: 1 << 30, max_answer_chars: 1000 };

    fn sh(script: &str, limits: &Limits) -> Ended {
        let words = ["/bin/sh", "-c", script].map(OsString::from);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run((&words, &None), 0, limits)).unwrap()
    }

    #[test]
    fn a_child_has_no_input_and_a_folder_of_the_system() {
        let ended = sh("cat; pwd; echo $NO_COLOR; echo no >&2; exit 4", &LIMITS);
        assert_eq!(ended.status.unwrap().code(), Some(4));
        assert_eq!((&ended.out.kept[..], &ended.err.kept[..]), (&b"/\n1\n"[..], &b"no\n"[..]));
    }

    #[test]
    fn a_child_whose_time_is_over_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        // It waits for a writer that never comes.
        let limits = Limits { timeout: Duration::from_millis(500), ..LIMITS };
        let ended = sh(&format!("exec cat {}", fifo.display()), &limits);
        assert!(ended.status.is_none());
    }

    /// A part of the script that sets the limits; that of files is set last.
    const LIMITED: &str = "until grep -q 'Max file size *0 ' /proc/self/limits; do :; done; ";

    #[test]
    fn a_child_writes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let ended = sh(&format!("{LIMITED} exec cat /etc/passwd >{}", file.display()), &LIMITS);
        let status = ended.status.unwrap();
        assert!(!status.success(), "{status:?}");
        assert_eq!(fs::metadata(&file).map_or(0, |found| found.len()), 0);
    }

    #[test]
    fn a_child_that_takes_too_much_memory_fails() {
        // A line without an end, which tail keeps.
        let script = format!("{LIMITED} head -c 300000000 /dev/zero | tail -n 1 | wc -c");
        let ended = sh(&script, &Limits { max_memory_bytes: 64 << 20, ..LIMITS });
        assert_eq!(&ended.out.kept[..], b"0\n");
        assert!(String::from_utf8_lossy(&ended.err.kept).contains("memory"), "{ended:?}");
    }

    #[test]
    fn an_endless_output_ends() {
        let ended = sh("exec yes", &LIMITS);
        assert!(ended.out.is_endless);
        assert_eq!(ended.out.kept.len(), 1000 * BYTES_A_CHAR);
        assert!(!ended.status.unwrap().success());
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let words = ["/no/such/program".into()];
        assert!(runtime.block_on(run((&words, &None), 0, &LIMITS)).is_err());
        assert!(runtime.block_on(run((&[], &None), 0, &LIMITS)).is_err());
    }
}
