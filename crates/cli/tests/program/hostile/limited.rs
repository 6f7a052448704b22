//! Runs the program with limits of memory and time, and measures what it used.

use std::{
    io::Read,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{ChildStdout, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::limits;

/// What one run may use.
pub(super) struct Limits {
    pub(super) seconds: f64,
    /// Of address space, more of which the system refuses.
    pub(super) megabytes: u64,
}

/// What a run used and printed.
#[derive(Debug)]
pub(super) struct Used {
    pub(super) status: ExitStatus,
    /// Whether it was ended because its time was over.
    pub(super) is_late: bool,
    /// Of processors, which other work on the machine changes little.
    pub(super) cpu_seconds: f64,
    pub(super) peak_rss_bytes: u64,
    /// The beginning of what it wrote on standard error, and its whole length.
    pub(super) message: String,
    pub(super) n_message_bytes: u64,
}

/// The part of a message that is kept.
const MESSAGE_BYTES: usize = 4096;

/// Runs the program in a folder. Its standard output is not kept.
pub(super) fn run(arguments: &[String], folder: &Path) -> Used {
    run_and_hear(arguments, folder, |out| drop(read(out)))
}

/// Runs the program in a folder; `hear` reads its standard output to the end.
#[allow(clippy::zombie_processes)] // `wait4` waits for it, and returns its resource usage too.
pub(super) fn run_and_hear(
    arguments: &[String],
    folder: &Path,
    hear: impl FnOnce(ChildStdout) + Send,
) -> Used {
    let Limits { seconds, megabytes } = limits();
    let kilobytes = megabytes * 1000;
    // A shell sets the limit and becomes the program.
    let script = format!("ulimit -v {kilobytes}; ulimit -c 0; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).arg(env!("CARGO_BIN_EXE_memreel")).args(arguments).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).env_remove("COLUMNS");
    let mut child = command.spawn().expect("a shell");
    let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let id = libc::pid_t::try_from(child.id()).expect("a process number");
    thread::scope(|threads| {
        let printed = threads.spawn(|| hear(out));
        let message = threads.spawn(|| read(err));
        let Ended { status, cpu_seconds, peak_rss_bytes, is_late } =
            wait(id, Instant::now() + Duration::from_secs_f64(seconds));
        printed.join().unwrap();
        let (message, n_message_bytes) = message.join().unwrap();
        let message = String::from_utf8_lossy(&message).into_owned();
        Used { status, is_late, cpu_seconds, peak_rss_bytes, message, n_message_bytes }
    })
}

/// Reads to the end; returns the beginning, and the number of all bytes.
fn read(mut from: impl Read) -> (Vec<u8>, u64) {
    let (mut kept, mut n_bytes) = (Vec::new(), 0);
    let mut buffer = vec![0; 1 << 16];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        n_bytes += n as u64;
        let n_wanted = n.min(MESSAGE_BYTES - kept.len());
        kept.extend_from_slice(&buffer[..n_wanted]);
    }
    (kept, n_bytes)
}

/// How a child ended.
struct Ended {
    status: ExitStatus,
    cpu_seconds: f64,
    peak_rss_bytes: u64,
    is_late: bool,
}

/// Waits for a child, and ends it when its time is over.
fn wait(id: libc::pid_t, end: Instant) -> Ended {
    let (mut is_late, mut pause) = (false, Duration::from_micros(200));
    loop {
        let mut status = 0;
        // SAFETY: `rusage` has only numbers, for which zero is a valid value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to locals that outlive the call. The child is waited for only here: dropping
        // `child` does not wait.
        let ended = unsafe { libc::wait4(id, &raw mut status, libc::WNOHANG, &raw mut usage) };
        assert!(ended >= 0, "the child cannot be waited for");
        if ended == id {
            let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
            return Ended {
                status: ExitStatus::from_raw(status),
                cpu_seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
                peak_rss_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
                is_late,
            };
        }
        if !is_late && Instant::now() >= end {
            is_late = true;
            // SAFETY: the call has no memory effects. The child was not waited for, so its number is still its own.
            unsafe { libc::kill(id, libc::SIGKILL) };
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(2));
    }
}
