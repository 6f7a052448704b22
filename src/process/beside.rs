//! A second process that does a part of this one's work: if it fails, for whatever reason, this one continues.

use std::{
    fs, io,
    os::unix::process::ExitStatusExt,
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitStatus,
};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, waitpid};

/// A process that does a part of the work of the process that started it. It ends with that process.
///
/// ```
/// use memreel::integrate::Beside;
///
/// # // Tests have other threads.
/// match Beside::start(|| 7) {
///     Ok(beside) => assert_eq!(beside.wait()?.code(), Some(7)),
///     Err(error) => assert!(error.to_string().contains("threads")),
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Beside(Pid);

impl Beside {
    /// Starts a process that runs `work` and ends with the status that it returns.
    ///
    /// # Errors
    /// This process has several threads, whose locks the child could find taken, or the system cannot start another
    /// process.
    pub fn start(work: impl FnOnce() -> i32) -> io::Result<Beside> {
        if fs::read_dir("/proc/self/task")?.take(2).count() != 1 {
            return Err(io::Error::other("this process has several threads"));
        }
        // SAFETY: this process has one thread, so the child finds no lock taken and may do anything.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // A parent that ends early is noticed by the reader of its messages.
                let _ = set_parent_process_death_signal(Some(Signal::KILL));
                let status = catch_unwind(AssertUnwindSafe(work)).unwrap_or(101);
                std::process::exit(status)
            }
            pid => Pid::from_raw(pid).map(Beside).ok_or_else(|| io::Error::other("fork returned no process")),
        }
    }

    /// Returns its PID.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.0.as_raw_nonzero().get().unsigned_abs()
    }

    /// Sends it a signal. It is not an error if the process has ended and was not waited for.
    pub fn send(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = kill_process(self.0, signal);
        }
    }

    /// Waits until it ends.
    ///
    /// # Errors
    /// The process was already waited for.
    pub fn wait(&self) -> io::Result<ExitStatus> {
        loop {
            match waitpid(Some(self.0), WaitOptions::empty()) {
                Ok(Some((_, status))) => return Ok(ExitStatus::from_raw(status.as_raw())),
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
