//! The process that is attached to.

#![forbid(unsafe_code)]

use std::{
    fmt::Display,
    fs,
    io::{self, ErrorKind},
    os::fd::{AsRawFd, OwnedFd},
};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::identity::{Identity, field};
use crate::{exit::Exit, failure::Failure, text::clean};

/// A running process.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) process: u32,
    /// Its PID in its own namespace, which differs in a container.
    pub(super) own_number: u32,
    pub(super) identity: Identity,
    /// Whether it has the files, processes and users that this process has; a container has its own.
    pub(super) is_here: bool,
    pub(super) mappings: Vec<Mapping>,
    /// Identifies the process: its PID may be reused later.
    descriptor: OwnedFd,
}

/// The beginning of a file in the memory of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) path: String,
}

/// Returns the error for a process that is refused, with the reason.
pub(super) fn refused(what: String) -> Failure {
    Failure::Message(Exit::Unreadable, what)
}

impl Target {
    pub(super) fn find(process: u32) -> Result<Target, Failure> {
        Target::read(process).map_err(|error| {
            refused(match error.kind() {
                ErrorKind::NotFound if state(process).is_err() => format!("there is no process {process}"),
                ErrorKind::NotFound => format!("process {process} has ended, or is a kernel thread"),
                ErrorKind::PermissionDenied => {
                    format!(
                        "no permission to inspect process {process}: it belongs to another user, or to a \
                         more privileged user; run this as root"
                    )
                }
                _ => format!("cannot inspect process {process}: {error}"),
            })
        })
    }

    fn read(process: u32) -> io::Result<Target> {
        let number = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or(ErrorKind::NotFound)?;
        let descriptor = match pidfd_open(number, PidfdFlags::empty()) {
            Err(rustix::io::Errno::SRCH) => return Err(ErrorKind::NotFound.into()),
            // It is the number of a thread.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {
                return Err(ErrorKind::NotFound.into());
            }
            done => done?,
        };
        let maps = fs::read(format!("/proc/{process}/maps"))?;
        let identity = Identity::of(process)?;
        let own_number =
            field(process, "NSpid").and_then(|numbers| numbers.split('\t').next_back()?.parse().ok());
        let target = Target {
            process,
            own_number: own_number.unwrap_or(process),
            is_here: identity.sees_what_sees(&Identity::of(std::process::id())?),
            identity,
            mappings: String::from_utf8_lossy(&maps).lines().filter_map(Mapping::of).collect(),
            descriptor,
        };
        // What was read by its number is of this process.
        if target.is_running() { Ok(target) } else { Err(ErrorKind::NotFound.into()) }
    }

    /// Returns whether it is still running.
    pub(super) fn is_running(&self) -> bool {
        let is_running = state(self.process).is_ok_and(|state| !"ZX".contains(state));
        // The number is its own until it is gone, and then the descriptor has none.
        let path = format!("/proc/self/fdinfo/{}", self.descriptor.as_raw_fd());
        let number = fs::read_to_string(path).unwrap_or_default();
        let number = number.lines().find_map(|line| line.strip_prefix("Pid:")).map(str::trim);
        is_running && number == Some(&self.process.to_string())
    }

    /// Returns an error if it has ended or changed since it was found.
    pub(super) fn is_what_it_was(&self) -> io::Result<()> {
        let is_same = Identity::of(self.process).is_ok_and(|identity| identity == self.identity);
        // In this order: what was read is of this process if it is still there.
        if !self.is_running() {
            return Err(io::Error::other("it has ended"));
        }
        let changed = || io::Error::other("its program, user, root or namespaces changed in the meantime");
        is_same.then_some(()).ok_or_else(changed)
    }

    /// Returns how it is attached to from where it runs.
    pub(super) fn inside_command(&self) -> String {
        format!(
            "In a container run it inside: `docker exec CONTAINER memreel attach {}`, where the container has \
             `--cap-add SYS_PTRACE`",
            self.own_number
        )
    }

    /// Returns the error for an action that failed, with the reason.
    pub(super) fn failed(&self, why: impl Display) -> Failure {
        refused(format!("{}: {why}", self.name()))
    }

    /// Returns why it runs no script now, if that is known.
    pub(super) fn what_it_does(&self) -> String {
        match state(self.process) {
            Ok('T' | 't') => "it is stopped; `kill -CONT` resumes it".to_owned(),
            Ok('D') => "its main thread waits for a device or a disk".to_owned(),
            Ok('S') => "its main thread waits in a C call, or for the interpreter's lock".to_owned(),
            _ => "its main thread is in a long C call, or another thread holds the interpreter's lock"
                .to_owned(),
        }
    }

    /// Returns the process that traces it, such as a debugger.
    pub(super) fn tracer(&self) -> Option<String> {
        field(self.process, "TracerPid").filter(|tracer| tracer != "0")
    }

    /// Returns how it is called in messages.
    pub(super) fn name(&self) -> String {
        let name = self.identity.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        format!("process {} ({})", self.process, clean(&name))
    }
}

impl Mapping {
    /// Reads a line of `maps` that begins a file.
    fn of(line: &str) -> Option<Mapping> {
        let mut words = line.split_ascii_whitespace();
        let (range, offset) = (words.next()?, words.nth(1)?);
        let start = u64::from_str_radix(range.split('-').next()?, 16).ok()?;
        let path = &line[line.find('/')?..];
        (offset.bytes().all(|digit| digit == b'0')).then(|| Mapping { start, path: path.to_owned() })
    }

    /// The name of the file.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// Returns the state of a process, as a letter.
fn state(process: u32) -> io::Result<char> {
    let text = fs::read(format!("/proc/{process}/stat"))?;
    let text = String::from_utf8_lossy(&text);
    // The name before may have spaces and parentheses.
    Ok(text.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next()).unwrap_or('?'))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    #[test]
    fn mappings_that_begin_a_file_are_read() {
        let line =
            |offset: &str, path: &str| format!("7f00000000-7f00001000 r--p {offset} 08:01 12   {path}");
        assert_eq!(
            Mapping::of(&line("00000000", "/usr/lib/a b/libc.so.6")),
            Some(Mapping { start: 0x7f_0000_0000, path: "/usr/lib/a b/libc.so.6".into() })
        );
        for (offset, path) in [("00001000", "/lib/libc.so.6"), ("00000000", "[heap]"), ("00000000", "")] {
            assert_eq!(Mapping::of(&line(offset, path)), None);
        }
    }

    #[test]
    fn a_process_runs_until_its_number_is_another_s() {
        let own = Target::find(std::process::id()).unwrap();
        assert!(
            own.is_running() && own.is_here && own.tracer().is_none() && own.mappings.len() > 1,
            "{own:?}"
        );
        own.is_what_it_was().unwrap();
        let start = || Command::new("sleep").arg("60").spawn().unwrap();
        let end = |mut child: Child| {
            child.kill().unwrap();
            child.wait().unwrap();
        };
        let child = start();
        let target = Target::find(child.id()).unwrap();
        assert!(target.is_running());
        end(child);
        assert!(!target.is_running());
        // Only root can choose the next number, and others may take it first.
        for _ in 0..100 {
            if fs::write("/proc/sys/kernel/ns_last_pid", (target.process - 1).to_string()).is_err() {
                return;
            }
            let other = start();
            let is_reused = other.id() == target.process;
            if is_reused {
                assert!(!target.is_running() && target.is_what_it_was().is_err());
            }
            end(other);
            if is_reused {
                return;
            }
        }
    }
}
