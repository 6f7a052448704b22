//! `memreel record`: runs a program and records the memory that it asks for.

#![forbid(unsafe_code)]

mod child;
mod environment;
mod folder;
mod keeper;
mod libraries;
mod names;
mod options;
mod preloadable;
mod recorded;
mod processes;
mod table;

use std::{
    io::{self, Write},
    process,
};

use crate::{exit::Exit, failure::Failure};

use child::Ended;
use folder::Folder;
use keeper::Keeper;
use libraries::Libraries;
use names::Names;
use preloadable::Unrecorded;

pub(crate) use options::Options;

pub(crate) fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    out.flush()?;
    let names = Names::new(options.output.as_deref(), &options.program[0])?;
    let asked = environment::memreel(options, &names)?;
    let libraries = Libraries::find(options.heap)?;
    let folder = Folder::create(names.folder())?;
    if let Err(why) = libraries.hook() {
        eprintln!("memreel: {why}");
    }
    let mut variables = environment::variables(options, &asked, &libraries, folder.path());
    if let Some(Unrecorded { why, refuses }) = preloadable::why_not(&options.program[0]) {
        eprintln!("memreel: {why}; it runs unrecorded");
        // Its children may be recorded, unless its loader would stop at the libraries.
        if refuses {
            variables.clear();
        }
    }
    let keeper = Keeper::start(&folder);
    let ended = child::run(&options.program, &variables);
    drop(keeper);
    if let Ended::At { process, .. } = ended {
        // What cannot be read or written has been said; the status is the program's.
        let mut err = io::stderr().lock();
        let _ = processes::save(options, &folder, &names, process, &mut err);
    }
    folder.remove_if_empty();
    // The statuses of programs are any number, and not those of this program.
    process::exit(ended.status())
}
