//! `memreel record`: runs a program and records the memory that it asks for.

#![forbid(unsafe_code)]

mod backlog;
mod child;
mod environment;
mod folder;
mod interrupted;
mod keeper;
pub(super) mod libraries;
mod names;
mod onlookers;
mod options;
pub(super) mod preloadable;
mod recorded;
mod room;
mod say;
mod processes;
mod saver;
mod shared_files;
mod table;
mod tapes;

use std::{
    io::{self, Write},
    process,
};

use memreel::integrate;

use super::{view::LivePage, watch::metrics::Metrics};
use crate::{exit::Exit, failure::Failure};

use folder::Folder;
use keeper::Keeper;
use libraries::Libraries;
use names::Names;
use preloadable::Unrecorded;
use processes::Processes;
use saver::Saver;
use say::say;
use shared_files::SharedFiles;

pub(super) use folder::{TapeFile, tapes_in};
pub(crate) use options::Options;

pub(crate) fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    out.flush()?;
    let mut names = Names::new(options.output.as_deref(), &options.program[0])?;
    let of_rank = names.tell_ranks_apart(integrate::rank(), integrate::n_ranks());
    let asked = environment::memreel(options, &names)?;
    let libraries = Libraries::find(options.heap)?;
    // Before the program starts: it should not run without what was asked for.
    let metrics = options.metrics.as_deref().map(Metrics::listen).transpose()?;
    let page = options.live.then(|| LivePage::listen(0)).transpose()?;
    let folder = Folder::create(names.folder())?;
    of_rank.iter().for_each(|line| say(line));
    if let Err(why) = libraries.hook() {
        say(why);
    }
    let mut variables = environment::variables(options, &asked, &libraries, folder.path());
    if let Some(Unrecorded { why, refuses }) = preloadable::why_not(&options.program[0]) {
        say(&format!("{why}; it runs unrecorded"));
        // Its children may be recorded, unless its loader would stop at the libraries.
        if refuses {
            variables.clear();
        }
    }
    if let Some(metrics) = metrics {
        say(&format!("metrics are at {}", metrics.address()));
        metrics.serve(folder.path(), options.metrics_sites);
    }
    let shared_files = SharedFiles::before();
    let opened = page.and_then(|page| page.serve_run(folder.path(), say));
    let keeper = Keeper::start(folder.path(), options.keep_tape, options.heap);
    let status = match child::start(&options.program, &variables, folder.path()) {
        Err(status) => status,
        Ok(child) => {
            names.remove_old(integrate::rank());
            if let Some(signal) = &options.signal {
                say(&format!(
                    "kill -{signal} {} writes a snapshot, and the program runs on",
                    child.process()
                ));
            }
            let saver = Saver::start(Processes::new(
                folder.path(),
                names,
                child.process(),
                options.keep_tape,
                keeper,
            ));
            let ending = child.wait();
            let mut text = Vec::new();
            // A vector takes everything. What cannot be read or written is in the text; the status is the program's.
            let is_json = options.json;
            let waits = move || {
                if !is_json {
                    say("saving what was recorded; Ctrl-C now leaves the tape instead");
                }
            };
            let _ = saver.finish(ending.failure, waits, |processes| processes.print(options, &mut text));
            // Nothing is left to be done, so a reader that has gone loses the lines alone.
            let _ = io::stderr().write_all(&text);
            shared_files.left().iter().for_each(|line| say(line));
            ending.status
        }
    };
    folder.remove_if_empty();
    drop(opened);
    // The statuses of programs are any number, and not those of this program.
    process::exit(status)
}
