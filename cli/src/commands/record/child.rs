//! The program that is recorded: it has the terminal, gets the signals, and its status is passed on.

#![forbid(unsafe_code)]

use std::{
    ffi::OsString,
    fs,
    io::{self, ErrorKind},
    os::unix::process::ExitStatusExt,
    process::{Child, Command, ExitStatus},
    thread,
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process},
};
use signal_hook::{
    consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH},
    iterator::{
        SignalsInfo,
        exfiltrator::origin::{Origin, WithOrigin},
    },
};

use super::{environment::Variable, preloadable::in_path};

/// How the program ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ended {
    /// It ran, as this process.
    At { process: u32, status: i32 },
    /// It could not be started.
    NotStarted { status: i32 },
}

impl Ended {
    pub(super) fn status(self) -> i32 {
        match self {
            Ended::At { status, .. } | Ended::NotStarted { status } => status,
        }
    }
}

/// Runs a program to its end.
pub(super) fn run(program: &[OsString], variables: &[Variable]) -> Ended {
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
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            eprintln!("memreel: {}: {error}", program[0].display());
            let status = if error.kind() == ErrorKind::NotFound { 127 } else { 126 };
            return Ended::NotStarted { status };
        }
    };
    let process = child.id();
    if let Ok(signals) = signals {
        pass_on(signals, process);
    }
    Ended::At { process, status: wait(&mut child).map_or(1, status_of) }
}

/// Returns what runs a file without `#!` as shells do: as a script of `sh`.
fn as_script(program: &[OsString], error: &io::Error) -> Option<Command> {
    let is_script = error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error());
    let path = is_script.then(|| in_path(&program[0])).flatten()?;
    let mut command = Command::new("/bin/sh");
    command.arg(path).args(&program[1..]);
    Some(command)
}

fn wait(child: &mut Child) -> Option<ExitStatus> {
    match child.wait() {
        Ok(status) => Some(status),
        Err(error) => {
            eprintln!("memreel: cannot wait for the program: {error}");
            None
        }
    }
}

/// A signal's number and 128 for a program that one ended, as shells do it.
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

/// Passes signals on to the program, for as long as this process lives.
fn pass_on(mut signals: SignalsInfo<WithOrigin>, process: u32) {
    // Without the thread, signals of the terminal still reach the program.
    let _ = thread::Builder::new().name("signals".into()).spawn(move || {
        for Origin { signal, process: from, .. } in signals.forever() {
            // What the terminal sends it sends to the program too.
            let is_of_terminal = from.is_none();
            let target = i32::try_from(process).ok().and_then(Pid::from_raw);
            if let (false, Some(target), Some(signal)) =
                (is_of_terminal, target, Signal::from_named_raw(signal))
            {
                // A program that has ended gets none.
                let _ = kill_process(target, signal);
            }
        }
    });
}
