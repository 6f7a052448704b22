//! The program that is recorded: it has the terminal, gets the signals, and its status is passed on.

#![forbid(unsafe_code)]

use std::{
    ffi::OsString,
    fs,
    io::{self, ErrorKind},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{self, Command, ExitStatus},
    sync::{Arc, OnceLock},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use signal_hook::{
    consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH},
    iterator::{
        SignalsInfo,
        exfiltrator::origin::{Origin, WithOrigin},
    },
};

use super::{environment::Variable, interrupted, preloadable::in_path, say::say};

/// A signal that comes so soon after the program's end was meant for the program: the terminal, or the sender of a group's
/// signal, sent it to both.
const SAME_SIGNAL: Duration = Duration::from_millis(200);

/// The program while it runs.
#[derive(Debug)]
pub(super) struct Child {
    child: process::Child,
    ended: Arc<OnceLock<Instant>>,
}

/// Starts a program. A signal that comes after its end ends this process, with a line about the tapes in `folder`.
///
/// # Errors
/// It could not be started, which is reported; returns the exit status for that.
pub(super) fn start(program: &[OsString], variables: &[Variable], folder: &Path) -> Result<Child, i32> {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]);
    for Variable { name, value } in variables {
        command.env(name, value);
    }
    // Before the program starts, so that a signal does not end this one alone. The program has what it would have
    // without: a handler ends with `exec`, and a signal that is ignored has none.
    let signals = SignalsInfo::<WithOrigin>::new(heeded());
    let started = command.spawn().or_else(|error| match as_script(program, &error) {
        Some(mut script) => script.envs(variables.iter().map(|of| (of.name, &of.value))).spawn(),
        None => Err(error),
    });
    let child = started.map_err(|error| {
        say(&format!("{}: {error}", program[0].display()));
        if error.kind() == ErrorKind::NotFound { 127 } else { 126 }
    })?;
    let child = Child { child, ended: Arc::default() };
    if let Ok(signals) = signals {
        heed(signals, &child, folder);
    }
    Ok(child)
}

impl Child {
    /// Returns the number of its process.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end.
    pub(super) fn wait(mut self) -> Ending {
        let status = self.child.wait();
        let _ = self.ended.set(Instant::now());
        match status {
            Ok(status) => {
                Ending { status: status_of(status), failure: (!status.success()).then(|| status.to_string()) }
            }
            Err(error) => {
                say(&format!("cannot wait for the program: {error}"));
                Ending { status: 1, failure: None }
            }
        }
    }
}

/// How the program ended.
#[derive(Debug)]
pub(super) struct Ending {
    /// Its exit status: the signal's number and 128 if one ended it, as shells do it.
    pub(super) status: i32,
    /// What its snapshot says of a status that is not 0.
    pub(super) failure: Option<String>,
}

/// Returns what runs a file without `#!` as shells do: as a script of `sh`.
fn as_script(program: &[OsString], error: &io::Error) -> Option<Command> {
    let is_script = error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error());
    let path = is_script.then(|| in_path(&program[0])).flatten()?;
    let mut command = Command::new("/bin/sh");
    command.arg(path).args(&program[1..]);
    Some(command)
}

fn status_of(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

/// The signals that end a program or that it may wait for, but those that are ignored: `nohup` stays in force.
fn heeded() -> Vec<i32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let all = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH];
    all.into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0).collect()
}

/// Passes signals on to the program while it runs. Afterwards, while the snapshots are written, the first that ends programs
/// ends this one.
fn heed(mut signals: SignalsInfo<WithOrigin>, child: &Child, folder: &Path) {
    // The number of a program that has ended may be another's.
    let target = i32::try_from(child.process()).ok().and_then(Pid::from_raw);
    let target = target.and_then(|number| pidfd_open(number, PidfdFlags::empty()).ok());
    let (ended, folder) = (child.ended.clone(), folder.to_owned());
    // Without the thread, signals of the terminal still reach the program.
    let _ = thread::Builder::new().name("signals".into()).spawn(move || {
        for Origin { signal, process: from, .. } in signals.forever() {
            if let Some(ended) = ended.get() {
                let is_new = ended.elapsed() > SAME_SIGNAL;
                if is_new && [SIGHUP, SIGINT, SIGQUIT, SIGTERM].contains(&signal) {
                    interrupted::end(signal, &folder);
                }
                continue;
            }
            // What the terminal sends it sends to the program too.
            let is_of_terminal = from.is_none();
            if let (false, Some(target), Some(signal)) =
                (is_of_terminal, &target, Signal::from_named_raw(signal))
            {
                // A program that has ended gets none.
                let _ = pidfd_send_signal(target, signal);
            }
        }
    });
}
