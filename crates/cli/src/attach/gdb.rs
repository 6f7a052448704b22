//! Enters a process before CPython 3.14: gdb queues a call that the interpreter makes between two lines. If the main
//! thread is waiting, in any version, gdb makes it run Python there.
//!
//! gdb stops the process for a moment and calls two functions in it: `mmap`, for a page with the text of the call, and
//! `Py_AddPendingCall`, which may be called at any time. So no Python runs where the process was stopped.

#![forbid(unsafe_code)]

use std::{
    fs::{self, File},
    os::unix::{fs::FileExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{
    elf::Exports,
    interpreter::{Interpreter, in_path},
    target::{Target, refused},
};
use crate::{failure::Failure, text::clean};

/// How long gdb may take until it is interrupted. It then undoes the call.
const LIMIT: Duration = Duration::from_secs(30);

/// How long to wait for the gdb of another `memreel attach`.
pub(super) const TRACED: Duration = Duration::from_secs(10);

/// The options: no file of the user's, no symbols but those that are asked for, nothing from the network.
const OPTIONS: [&str; 14] = [
    "-nx",
    "-batch",
    "-iex",
    "set auto-solib-add off",
    "-iex",
    "set auto-load off",
    "-iex",
    "set debuginfod enabled off",
    "-iex",
    "set language c",
    "-iex",
    "set unwindonsignal on",
    "-iex",
    "handle all nostop noprint pass",
];

/// The name of the file of its commands.
const COMMANDS: &str = "commands";

/// gdb's output when it is attached.
const ATTACHED: &str = "printf \"attached\\n\"";

/// Reads no debug information, which takes long in a large program; without it there are no backtraces.
const QUICK: &str = "--readnever";

/// Finds a gdb that starts. It runs with the caller's rights, so it must not be one that another user could have put
/// there.
pub(super) fn program() -> Option<PathBuf> {
    let starts = |gdb: &PathBuf| {
        let mut command = Command::new(gdb);
        let status = command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    in_path("gdb").find(starts)
}

/// Queues the call.
pub(super) fn queue(
    gdb: &Path,
    target: &Target,
    interpreter: &Interpreter,
    script: &str,
) -> Result<(), Failure> {
    let (commands, mut refused_at) = (queueing(target, interpreter, &call(script))?, None);
    loop {
        let said = run_gdb(gdb, target, Some(QUICK), &commands)?;
        if said.lines().any(|line| line == "queued 0") {
            return Ok(());
        }
        // The system reports this while another debugger is attached.
        let is_traced = said.contains("ptrace: Operation not permitted");
        if !is_traced || refused_at.get_or_insert_with(Instant::now).elapsed() > TRACED {
            return Err(refused(format!("{}: gdb failed: {}", target.name(), reason(&said))));
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// Returns the commands that queue a text of Python.
fn queueing(target: &Target, interpreter: &Interpreter, text: &str) -> Result<String, Failure> {
    let is_libc = |name: &str| ["libc.so", "libc-2.", "ld-musl"].iter().any(|start| name.starts_with(start));
    let libc = target.mappings.iter().find(|mapping| is_libc(mapping.name()));
    let mmap = libc.and_then(|libc| Exports::of(target, libc, &["mmap"])?.address("mmap"));
    let mmap = mmap.ok_or_else(|| refused(format!("{}: its C library was not found", target.name())))?;
    let (add, run) = (interpreter.address("Py_AddPendingCall")?, interpreter.address("PyRun_SimpleString")?);
    Ok(format!(
        "set $page = ((unsigned long (*)(unsigned long, unsigned long, int, int, int, long)) {mmap}) (0, 4096, 3, \
         0x22, -1, 0)\n\
         if $page == 0 || $page > -4096ul\n  quit 7\nend\n\
         set {{char[{}]}} $page = \"{}\"\n\
         set $queued = ((int (*)(unsigned long, unsigned long)) {add}) ({run}, $page)\n\
         printf \"queued %d\\n\", $queued\n",
        text.len() + 1,
        text.replace('\\', "\\\\").replace('\n', "\\n"),
    ))
}

/// Returns the text of the call, which must not fail. It binds no name in the program's module, and does nothing if the script
/// is gone.
fn call(script: &str) -> String {
    let run = "with open(path) as file: text = file.read()\\nexec(text)";
    format!("try:\n exec('{run}', {{'path': '{script}'}})\nexcept BaseException: pass\n")
}

/// Makes the main thread run the queued call where it is waiting, if it is waiting without holding a lock.
pub(super) fn make_now(gdb: &Path, target: &Target, interpreter: &Interpreter) -> Result<(), Failure> {
    run_python_now(gdb, target, interpreter, "")
}

/// Makes the main thread run Python where it is waiting, as `make_now` does. The queued text does nothing: an
/// interpreter that runs any text first runs the script that `sys.remote_exec` requested.
pub(super) fn wake(gdb: &Path, target: &Target, interpreter: &Interpreter) -> Result<(), Failure> {
    run_python_now(gdb, target, interpreter, &queueing(target, interpreter, "pass")?)
}

/// Makes the main thread run all queued calls where it is waiting. gdb first runs the commands `before`.
fn run_python_now(
    gdb: &Path,
    target: &Target,
    interpreter: &Interpreter,
    before: &str,
) -> Result<(), Failure> {
    let said = run_gdb(
        gdb,
        target,
        None,
        "printf \"pc %lx\\nsp %lx\\n\", $pc, $sp\nsharedlibrary libpython\nsharedlibrary libc\nbacktrace 12\n",
    )?;
    if !waits_for_lock(&said) && !sleeps(&system_call(target), &said) {
        return Ok(());
    }
    let word = |name: &str| said.lines().find_map(|line| line.strip_prefix(name));
    let (Some(pc), Some(sp)) = (word("pc "), word("sp ")) else { return Ok(()) };
    let [ensure, make, release] = ["PyGILState_Ensure", "Py_MakePendingCalls", "PyGILState_Release"]
        .map(|name| interpreter.address(name));
    // It may have continued.
    let commands = format!(
        "if $pc != 0x{pc} || $sp != 0x{sp}\n  quit\nend\n{before}\
         set $state = ((int (*)(void)) {}) ()\n\
         call (void) ((int (*)(void)) {}) ()\n\
         call ((void (*)(int)) {}) ($state)\n",
        ensure?, make?, release?
    );
    let mut attached = Attached::start(gdb, target, Some(QUICK))?;
    attached.order(target, &commands)?;
    // gdb is left alone until it is done, because its current action cannot be undone.
    let _ = thread::Builder::new().spawn(move || {
        let _ended = attached.gdb.wait();
        drop(attached);
    });
    Ok(())
}

/// Runs commands at the stopped process, up to the first that fails. Returns gdb's output.
fn run_gdb(gdb: &Path, target: &Target, how: Option<&str>, commands: &str) -> Result<String, Failure> {
    let mut attached = Attached::start(gdb, target, how)?;
    attached.order(target, commands)?;
    attached.wait_until(|_| false)?;
    attached.said()
}

/// A gdb that is attached, or says why not. It then waits for a line or the end of its input. Its commands are in a file, which
/// is not there until the process is known.
struct Attached {
    gdb: Child,
    go: Option<ChildStdin>,
    said: File,
    folder: TempDir,
}

impl Attached {
    fn start(program: &Path, target: &Target, how: Option<&str>) -> Result<Attached, Failure> {
        let (said, folder) = (tempfile::tempfile()?, tempfile::tempdir()?);
        let mut gdb = Command::new(program);
        gdb.args(OPTIONS).args(how).arg("-p").arg(target.process.to_string());
        gdb.args(["-ex", ATTACHED, "-ex", "shell read go", "-x"]).arg(folder.path().join(COMMANDS));
        // Its output is parsed here.
        gdb.env("LC_ALL", "C").env("SHELL", "/bin/sh");
        gdb.stdin(Stdio::piped()).stdout(said.try_clone()?).stderr(said.try_clone()?);
        // A Ctrl-C for this program must not end it in the middle.
        let mut gdb = gdb.process_group(0).spawn()?;
        let go = gdb.stdin.take();
        Ok(Attached { gdb, go, said, folder })
    }

    /// Sends the commands, if gdb is attached to the process that was found: gdb knows only its PID. A process that gdb
    /// has stopped does not change.
    fn order(&mut self, target: &Target, commands: &str) -> Result<(), Failure> {
        let is_attached = |said: &str| said.lines().any(|line| line == "attached");
        self.wait_until(is_attached)?;
        // gdb continues when this is dropped. Without commands it leaves the process unchanged.
        let _go = self.go.take();
        let said = self.said()?;
        if is_attached(&said) && !said.contains("ptrace: ") {
            target.is_what_it_was().map_err(|error| target.failed(&error))?;
            fs::write(self.folder.path().join(COMMANDS), commands)?;
        }
        Ok(())
    }

    /// Waits until it has printed something, or ended.
    fn wait_until(&mut self, has_said: impl Fn(&str) -> bool) -> Result<(), Failure> {
        let (begun, mut is_interrupted) = (Instant::now(), false);
        while self.gdb.try_wait()?.is_none() && !has_said(&self.said()?) {
            if begun.elapsed() > LIMIT && !is_interrupted {
                is_interrupted = true;
                let number = i32::try_from(self.gdb.id()).ok().and_then(Pid::from_raw);
                let _ = number.map(|number| kill_process(number, Signal::INT));
            }
            if begun.elapsed() > LIMIT * 2 {
                // The kernel lets the process go when what traces it is gone.
                self.gdb.kill()?;
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Returns what it has said so far.
    fn said(&self) -> Result<String, Failure> {
        let mut said = vec![0; usize::try_from(self.said.metadata()?.len()).unwrap_or_default()];
        self.said.read_exact_at(&mut said, 0)?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

/// Returns the line with the reason of a failure: the one after that which reports a failed command, if one failed.
fn reason(said: &str) -> String {
    let is_reason = |line: &&str| {
        ["ptrace", "not permitted", "rror", "annot", "ouldn't", "nterrupted"]
            .iter()
            .any(|word| line.contains(word))
    };
    let is_failed_command = |line: &&str| line.contains("Error in sourced command file");
    let behind = said.lines().skip_while(|line| !is_failed_command(line)).nth(1);
    let line = behind.or_else(|| said.lines().find(is_reason)).or_else(|| said.lines().next_back());
    let reason = clean(line.unwrap_or("it said nothing").trim()).into_owned();
    // gdb 13 did so on an Intel Xeon with AMX, and gdb 16 did not.
    let is_old = reason.contains("extended state");
    if is_old { reason + " This gdb is too old for the processor; gdb 16 is not" } else { reason }
}

/// Returns whether a Python lock is waited for, as in `Thread.join`: without the interpreter's lock.
fn waits_for_lock(said: &str) -> bool {
    // The second is `Thread.join` of 3.13. The third is under any wait of 3.14, and under `SimpleQueue.get` of 3.13.
    let is_wait = |line: &str| {
        let names = ["PyThread_acquire_lock_timed", "PyEvent_WaitTimed", "_PySemaphore_Wait"];
        names.iter().any(|name| line.contains(name))
    };
    said.lines().any(|line| line.starts_with('#') && is_wait(line))
}

/// Returns the system call that the main thread is in: its number, its arguments and where it was made.
fn system_call(target: &Target) -> String {
    fs::read_to_string(format!("/proc/{}/syscall", target.process)).unwrap_or_default()
}

/// Returns whether a system call waits for time, a socket or children. Waiting for a lock or a driver does not count,
/// because the caller may hold a lock. Some calls have another number after a stop, and gdb reports which function made
/// the call.
fn sleeps(call: &str, said: &str) -> bool {
    let number = call.split(' ').next().and_then(|number| number.parse().ok());
    let mut newest = said.lines().filter(|line| line.starts_with('#')).take(4);
    let is_restarted =
        |line: &str| ["poll (", "nanosleep (", "nanosleep64 ("].iter().any(|name| line.contains(name));
    number.is_some_and(|number: u16| {
        WAITING.contains(&number) || number == RESTARTED && newest.any(is_restarted)
    })
}

/// The number of a call that was stopped and goes on, `restart_syscall`.
const RESTARTED: u16 = if cfg!(target_arch = "x86_64") { 219 } else { 128 };

/// pause, nanosleep, clock_nanosleep, select, pselect6, poll, ppoll, epoll_wait, epoll_pwait, epoll_pwait2, accept, accept4,
/// recvfrom, recvmsg, wait4, waitid, rt_sigtimedwait.
#[cfg(target_arch = "x86_64")]
const WAITING: [u16; 17] = [34, 35, 230, 23, 270, 7, 271, 232, 281, 441, 43, 288, 45, 47, 61, 247, 128];

/// nanosleep, clock_nanosleep, pselect6, ppoll, epoll_pwait, epoll_pwait2, accept, accept4, recvfrom, recvmsg, wait4, waitid,
/// rt_sigtimedwait.
#[cfg(not(target_arch = "x86_64"))]
const WAITING: [u16; 13] = [101, 115, 72, 73, 22, 441, 202, 242, 207, 212, 260, 95, 137];

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_behind_the_command_that_failed() {
        let failed = "0x7f in ?? ()\n/tmp/c:1: Error in sourced command file:\nCouldn't write extended state status: \
                      Bad address.\n[Inferior 1 (process 4) detached]\n";
        assert_eq!(
            reason(failed),
            "Couldn't write extended state status: Bad address. This gdb is too old for the processor; gdb 16 is not"
        );
        let refused =
            "warning: process 4\nptrace: Operation not permitted.\nThe program has no registers now.\n";
        assert_eq!(reason(refused), "ptrace: Operation not permitted.");
        assert_eq!(reason("x\nlast\n"), "last");
        assert_eq!(reason(""), "it said nothing");
    }

    #[test]
    fn a_wait_is_known_again_after_a_stop() {
        let poll =
            "pc 1\n#0  0x7f in ?? ()\n#1  0x7f in __GI___poll (fds=0x1) at ../poll.c:29\n#2  0x7f in f ()\n";
        let lock = "pc 1\n#0  0x7f in ?? ()\n#1  0x7f in pthread_cond_timedwait ()\n#2  0x7f in g ()\n";
        for (call, said, expected) in [
            ("7 0x10 0x1\n", "", true),
            ("219 0x10 0x1\n", poll, true),
            ("219 0x10 0x1\n", lock, false),
            ("202 0x10 0x1\n", lock, false),
            ("running\n", poll, false),
        ] {
            assert_eq!(sleeps(call, said), expected, "{call} {said}");
        }
    }
}
