//! `memreel record`: runs a program and records the memory that it requests.

#![forbid(unsafe_code)]

mod backlog;
mod bystander;
mod bystanders;
mod child;
mod environment;
mod folder;
mod helpers;
mod interrupted;
mod keeper;
mod names;
mod onlookers;
mod options;
mod places;
mod recorded;
mod space_thread;
mod run;
mod say;
mod processes;
mod saver;
mod saving;
mod shared_files;
mod table;
mod tapes;
mod told;

use std::{io::Write, process, sync::Arc};

use memreel::integrate;

use crate::{
    exit::Exit,
    failure::Failure,
    row::Program,
    run::{
        libraries::Libraries,
        preloadable::{self, Unrecorded},
    },
    serve::{live::page::LivePage, metrics::Metrics},
    text::Page,
};

use folder::Folder;
use names::Names;
use saving::Saving;
use say::say;

pub(crate) use options::Options;

pub(crate) fn run(options: &Options, program: &Program, out: &mut Page) -> Result<Exit, Failure> {
    out.flush()?;
    let mut names = Names::new(options.output.as_deref(), &options.program[0])?;
    let of_rank = names.tell_ranks_apart(integrate::rank(), integrate::n_ranks());
    let asked = environment::memreel(options, &names)?;
    let libraries = Libraries::find(options.heap)?;
    // Before the program starts: it should not run without what was asked for.
    let listen = |address| Metrics::listen(address, options.metrics_token.as_deref());
    let metrics = options.metrics.as_deref().map(listen).transpose()?;
    let page = options.live.then(|| LivePage::listen(0)).transpose()?;
    let beside = options.keep_tape.then(|| names.folder());
    child::survive_file_limits();
    let folder = Folder::create(names.folder(), options.tapes.as_deref().or(beside))?;
    of_rank.iter().for_each(|line| say(line));
    if let Err(why) = libraries.hook() {
        say(why);
    }
    let mut variables = environment::variables(options, &asked, &libraries, folder.path());
    let unrecorded = preloadable::why_not(&options.program[0]);
    if let Some(Unrecorded { why, refuses }) = &unrecorded {
        say(&format!("{why}; it is not recorded"));
        // Its children may be recorded, unless its loader would stop at the libraries.
        if *refuses {
            variables.clear();
        }
    }
    if let Some(metrics) = &metrics {
        say(&format!("metrics are at {}", metrics.address()));
        metrics.warning().iter().for_each(|line| say(line));
    }
    let (unrecorded, folder_of_run) = (unrecorded.map(|unrecorded| unrecorded.why), folder.path().to_owned());
    let saving = Saving {
        options,
        unrecorded,
        names: names.clone(),
        folder: folder_of_run,
        metrics,
        page,
        make: program.make,
        text: out.part(),
    };
    // While this process has one thread.
    let (saving, mut news) = saving.start();
    let saving = Arc::new(saving);
    let mut status = match child::start(&options.program, &variables, &saving) {
        Err(status) => status,
        Ok(child) => {
            names.remove_old(integrate::rank());
            if let Some(signal) = &options.signal {
                say(&format!(
                    "kill -{signal} {} writes a snapshot without stopping the program",
                    child.process()
                ));
            }
            news.started(child.process());
            let ending = child.wait();
            news.ended(ending.failure.as_deref());
            ending.status
        }
    };
    drop(news);
    status = saving::finish(&saving, folder.path(), names.folder()).unwrap_or(status);
    folder.remove_if_empty();
    // Programs have any status, not only those of this program.
    process::exit(status)
}
