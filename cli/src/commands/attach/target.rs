//! The process that is attached to.

#![forbid(unsafe_code)]

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt,
    path::PathBuf,
};

use crate::{exit::Exit, failure::Failure, text::clean};

/// A process that runs.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) process: u32,
    /// Its number where it runs: in a container it is another.
    pub(super) own_number: u32,
    pub(super) user: u32,
    pub(super) group: u32,
    /// What it runs, in the view of this process.
    pub(super) program: PathBuf,
    pub(super) mappings: Vec<Mapping>,
    /// When it started: its number may be another's later.
    started: String,
}

/// The beginning of a file in the memory of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) path: String,
}

/// Returns that a process is refused, with the reason.
pub(super) fn refused(what: String) -> Failure {
    Failure::Message(Exit::Unreadable, what)
}

impl Target {
    pub(super) fn find(process: u32) -> Result<Target, Failure> {
        Target::read(process).map_err(|error| {
            refused(match error.kind() {
                ErrorKind::NotFound if stat(process).is_err() => format!("there is no process {process}"),
                ErrorKind::NotFound => format!("process {process} has ended, or is a thread of the system"),
                ErrorKind::PermissionDenied => {
                    format!(
                        "process {process} may not be looked at: it is of another user, or of a user with more rights; \
                         root may"
                    )
                }
                _ => format!("process {process} cannot be looked at: {error}"),
            })
        })
    }

    fn read(process: u32) -> io::Result<Target> {
        let of = fs::metadata(format!("/proc/{process}"))?;
        let (_, started) = stat(process)?;
        let program = fs::read_link(format!("/proc/{process}/exe"))?;
        let maps = fs::read(format!("/proc/{process}/maps"))?;
        let mappings = String::from_utf8_lossy(&maps).lines().filter_map(Mapping::of).collect();
        let own_number =
            field(process, "NSpid").and_then(|numbers| numbers.split('\t').next_back()?.parse().ok());
        Ok(Target {
            process,
            own_number: own_number.unwrap_or(process),
            user: of.uid(),
            group: of.gid(),
            program,
            mappings,
            started,
        })
    }

    /// Whether it still runs.
    pub(super) fn is_running(&self) -> bool {
        stat(self.process).is_ok_and(|(state, started)| !"ZX".contains(state) && started == self.started)
    }

    /// Returns why it runs no script now, if that is known.
    pub(super) fn what_it_does(&self) -> String {
        match stat(self.process) {
            Ok(('T' | 't', _)) => "it is stopped; `kill -CONT` lets it go on".to_owned(),
            Ok(('D', _)) => "its main thread waits for a device or a disk".to_owned(),
            Ok(('S', _)) => "its main thread waits in a call of C, or for the interpreter's lock".to_owned(),
            _ => "its main thread is in a long call of C, or another thread has the interpreter's lock"
                .to_owned(),
        }
    }

    /// Returns the process that traces it, such as a debugger.
    pub(super) fn tracer(&self) -> Option<String> {
        field(self.process, "TracerPid").filter(|tracer| tracer != "0")
    }

    /// Returns the path by which this process reads a file of its.
    pub(super) fn path_of(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.process))
    }

    /// Returns how it is called in messages.
    pub(super) fn name(&self) -> String {
        let name = self.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
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

/// Returns the state of a process, as a letter, and when it started.
fn stat(process: u32) -> io::Result<(char, String)> {
    let text = fs::read(format!("/proc/{process}/stat"))?;
    let text = String::from_utf8_lossy(&text);
    // The name before may have spaces and parentheses.
    let mut words = text.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    let state = words.next().and_then(|word| word.chars().next()).unwrap_or('?');
    Ok((state, words.nth(18).unwrap_or_default().to_owned()))
}

fn field(process: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

#[cfg(test)]
mod tests {
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
    fn this_process_runs() {
        let own = Target::find(std::process::id()).unwrap();
        assert!(own.is_running() && own.tracer().is_none() && own.mappings.len() > 1, "{own:?}");
        let later = Target { started: "1".into(), ..own };
        assert!(!later.is_running(), "a process of the same number that started at another time");
    }
}
