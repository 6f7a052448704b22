//! Runs the recorded program: it inherits the terminal and this command's environment, gets the signals, and its status
//! is passed on.

#![forbid(unsafe_code)]

use std::{
    ffi::OsString,
    fs,
    io::{self, ErrorKind},
    os::unix::process::ExitStatusExt,
    process::{self, Command, ExitStatus},
    sync::{Arc, OnceLock},
    thread,
    time::{Duration, Instant},
};

use memreel::integrate::{Beside, Inherited};
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use signal_hook::{
    consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGXFSZ},
    flag,
    iterator::{
        SignalsInfo,
        exfiltrator::origin::{Origin, WithOrigin},
    },
};

use super::{environment::Variable, say::say};
use crate::{run::preloadable::in_path, text::ShownPath};

/// A signal that comes within this time after the program's end was meant for the program: the terminal, or the sender
/// of a group's signal, sent it to both.
const SAME_SIGNAL: Duration = Duration::from_millis(200);

/// The program while it runs.
#[derive(Debug)]
pub(super) struct Child {
    child: process::Child,
    ended: Arc<OnceLock<Instant>>,
}

/// Starts a program. A signal that comes after its end is passed on to what saves.
///
/// # Errors
/// It could not be started, which is reported; returns the exit status for that.
pub(super) fn start(
    program: &[OsString],
    variables: &[Variable],
    saving: &Arc<io::Result<Beside>>,
) -> Result<Child, i32> {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]);
    // Before the program starts, so that a signal does not end this one alone. The program has what it would have
    // without: a handler ends with `exec`, and a signal that is ignored has none.
    let signals = signals();
    let inherited = Inherited::get();
    inherited.learn_of_children();
    let spawn = |mut command: Command| {
        command.envs(variables.iter().map(|of| (of.name, &of.value)));
        inherited.pass_on(&mut command);
        command.spawn()
    };
    let started = spawn(command).or_else(|error| match as_script(program, &error) {
        Some(script) => spawn(script),
        None => Err(error),
    });
    let child = started.map_err(|error| {
        say(&format!("{}: {error}", ShownPath(&program[0])));
        if error.kind() == ErrorKind::NotFound { 127 } else { 126 }
    })?;
    let child = Child { child, ended: Arc::default() };
    if let Ok(signals) = signals {
        heed(signals, &child, saving.clone());
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

/// Returns a command that runs a file without `#!` as shells do: as a script of `sh`.
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

/// Returns the signals that end a program or that it may wait for, as they come, but those that are ignored: `nohup` stays in
/// force.
pub(super) fn signals() -> io::Result<SignalsInfo<WithOrigin>> {
    let ignored = ignored();
    let all = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH];
    SignalsInfo::new(all.into_iter().filter(|signal| !is_in(*signal, ignored)))
}

/// Makes exceeding the file size limit an error of the write instead of ending this process. The program inherits the
/// signal unchanged.
pub(super) fn survive_file_limits() {
    if !is_in(SIGXFSZ, ignored()) {
        let _ = flag::register(SIGXFSZ, Arc::default());
    }
}

/// Returns the signals that this process ignores, a bit each.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn is_in(signal: i32, mask: u64) -> bool {
    mask & (1 << (signal - 1)) != 0
}

/// Returns whether a signal ends what saves, if it comes so long after the program's end.
pub(super) fn ends_saving(signal: i32, after: Duration) -> bool {
    after > SAME_SIGNAL && [SIGHUP, SIGINT, SIGQUIT, SIGTERM].contains(&signal)
}

/// Passes signals on: to the program while it runs, and afterwards, while the snapshots are written, to the saving
/// process. The terminal sends its signals to both.
fn heed(mut signals: SignalsInfo<WithOrigin>, child: &Child, saving: Arc<io::Result<Beside>>) {
    // The number of a program that has ended may be another's.
    let target = i32::try_from(child.process()).ok().and_then(Pid::from_raw);
    let target = target.and_then(|number| pidfd_open(number, PidfdFlags::empty()).ok());
    let ended = child.ended.clone();
    // Without the thread, signals of the terminal still reach the program.
    let _ = thread::Builder::new().name("signals".into()).spawn(move || {
        // The kernel sends those that have no sender.
        for Origin { signal, .. } in signals.forever().filter(|origin| origin.process.is_some()) {
            match (ended.get(), &target, Signal::from_named_raw(signal)) {
                (Some(ended), ..) => {
                    let is_over = ends_saving(signal, ended.elapsed());
                    saving.iter().filter(|_| is_over).for_each(|saving| saving.send(signal));
                }
                // A program that has ended gets none.
                (None, Some(target), Some(signal)) => _ = pidfd_send_signal(target, signal),
                _ => {}
            }
        }
    });
}
