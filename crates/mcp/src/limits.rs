//! Limits what one question may use, and how long its answer may be.

#![forbid(unsafe_code)]

use std::{io, num::NonZero, thread, time::Duration};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

/// What one question may use, and how long its answer may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The time after which a question is stopped.
    pub timeout: Duration,
    /// The most memory of a question's process, in bytes. Files that it maps to read them do not count.
    pub max_memory_bytes: u64,
    /// The most characters of an answer.
    pub max_answer_chars: usize,
}

impl Limits {
    /// Sets the limits of a process: memory, processor time, no core dump, and no byte written to a file.
    ///
    /// The server's timeout ends a question earlier; the limit of processor time is for a server that was killed.
    pub(crate) fn set(&self, process: Pid) -> io::Result<()> {
        let n_processors = thread::available_parallelism().map_or(1, NonZero::get) as u64;
        let cpu_seconds = (self.timeout.as_secs() + 1).saturating_mul(n_processors);
        let limits = [
            (Resource::Data, self.max_memory_bytes),
            (Resource::Cpu, cpu_seconds),
            (Resource::Core, 0),
            (Resource::Fsize, 0),
        ];
        for (resource, most) in limits {
            // A process may lower its highest limit and never raise it.
            let most = getrlimit(resource).maximum.map_or(most, |highest| highest.min(most));
            prlimit(Some(process), resource, Rlimit { current: Some(most), maximum: Some(most) })?;
        }
        Ok(())
    }

    /// Returns the number of questions that are answered at once; others wait.
    pub(crate) fn at_once() -> usize {
        thread::available_parallelism().map_or(1, NonZero::get).clamp(2, 4)
    }
}
