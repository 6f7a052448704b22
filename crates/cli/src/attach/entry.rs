//! Gets a script into a process and waits until it answers.

#![forbid(unsafe_code)]

use std::{
    io,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use super::{
    deputy::TEMPORARY,
    end_requests::EndRequests,
    folder::Folder,
    gdb,
    interpreter::Interpreter,
    remote,
    talk::Talk,
    target::{Target, refused},
};
use crate::{failure::Failure, row::Program};

/// How long the main thread may take before it is checked where it waits.
const SOON: Duration = Duration::from_secs(1);

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// How the script gets into a process.
#[derive(Debug)]
enum Way {
    /// Through an interpreter of the same version.
    Remote(PathBuf),
    /// Through this gdb.
    Gdb(PathBuf),
}

/// The way into a process.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    target: &'a Target,
    interpreter: &'a Interpreter,
    way: Way,
}

impl<'a> Entry<'a> {
    /// Finds the way, or returns what is missing.
    pub(super) fn of(target: &'a Target, interpreter: &'a Interpreter) -> Result<Entry<'a>, Failure> {
        let of = |way| Ok(Entry { target, interpreter, way });
        if interpreter.has_remote()
            && let Some(program) = interpreter.program(target)
        {
            return of(Way::Remote(program));
        }
        let begun = Instant::now();
        while let Some(tracer) = target.tracer() {
            if begun.elapsed() > gdb::TRACED {
                return Err(refused(format!("{} is already traced, by process {tracer}", target.name())));
            }
            thread::sleep(LOOK);
        }
        if let Some(gdb) = gdb::program() {
            return of(Way::Gdb(gdb));
        }
        let minor = interpreter.minor;
        Err(refused(if !target.is_here {
            format!(
                "{} is in a container, or has its own root, which needs gdb from outside; gdb is not \
                 installed. {}",
                target.name(),
                target.inside_command()
            )
        } else if interpreter.has_remote() {
            format!(
                "{} needs a python3.{minor} in PATH that no other user can replace, or gdb; neither is \
                 installed",
                target.name()
            )
        } else {
            format!("{} is CPython 3.{minor}, which needs gdb; gdb is not installed", target.name())
        }))
    }

    /// Makes the process run the script, and waits until it answers.
    pub(super) fn enter(
        &self,
        program: &Program,
        ring: u32,
        wait: Duration,
        asked: &EndRequests,
    ) -> Result<Talk<'a>, Failure> {
        let folder =
            Folder::create(self.target, ring, program).map_err(|error| self.without_folder(&error))?;
        let begun = Instant::now();
        match &self.way {
            Way::Remote(program) => remote::request(program, self.target, &folder.script)?,
            Way::Gdb(gdb) => gdb::queue(gdb, self.target, self.interpreter, &folder.script)?,
        }
        let mut may_wait = true;
        loop {
            if let Some(stream) = folder.guest(self.target)? {
                return Talk::with(self.target, stream);
            }
            if may_wait && begun.elapsed() > SOON {
                may_wait = false;
                self.run_now()?;
            }
            if !self.target.is_running() {
                return Err(refused(format!("{} has ended", self.target.name())));
            }
            if begun.elapsed() > wait || asked.times() > 0 {
                return Err(self.give_up(folder, begun.elapsed()));
            }
            thread::sleep(LOOK);
        }
    }

    /// Makes the main thread run the script where it is waiting, if it is.
    fn run_now(&self) -> Result<(), Failure> {
        match &self.way {
            Way::Gdb(gdb) => gdb::make_now(gdb, self.target, self.interpreter)?,
            // It also runs without gdb, when the wait is over.
            Way::Remote(_) if self.target.tracer().is_none() => {
                let _ = gdb::program().map(|gdb| gdb::wake(&gdb, self.target, self.interpreter));
            }
            Way::Remote(_) => {}
        }
        Ok(())
    }

    fn without_folder(&self, error: &io::Error) -> Failure {
        let inside_command =
            if self.target.is_here { String::new() } else { format!(". {}", self.target.inside_command()) };
        self.target.failed(format_args!("cannot create a folder in its {TEMPORARY}: {error}{inside_command}"))
    }

    fn give_up(&self, folder: Folder, waited: Duration) -> Failure {
        // The request may still run. Without a socket it does nothing.
        let is_remote = matches!(self.way, Way::Remote(_));
        if is_remote {
            folder.leave();
        }
        let or_gdb = if is_remote && gdb::program().is_none() {
            ", or gdb, which is not installed: it runs the script while the main thread waits"
        } else {
            ""
        };
        refused(format!(
            "{} did not answer within {:.1} s: {}; the request has expired, and does nothing if it runs \
             later. A longer --wait may help{or_gdb}",
            self.target.name(),
            waited.as_secs_f64(),
            self.target.what_it_does(),
        ))
    }
}
