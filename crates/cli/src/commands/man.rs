//! `memreel man`: manual pages, one on standard output or all into a folder.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap_mangen::Man;
use memreel_snapshot::place::Folder;

use crate::{
    exit::Exit,
    failure::Failure,
    row::Program,
    text::{Page, ShownPath},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  memreel man | man -l -
  memreel man --to ~/.local/share/man/man1

Exit status: 0 printed or written; 2 usage error; 3 a folder cannot be written
to.")]
pub(crate) struct Options {
    /// Write the pages of all commands to this folder
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
}

pub(crate) fn run(options: &Options, program: &Program, out: &mut Page) -> Result<Exit, Failure> {
    if let Some(folder) = &options.to {
        write(&program.line, folder).map_err(|error| {
            let what = format!("cannot write into {}: {error}", ShownPath(&folder));
            Failure::Message(Exit::Unreadable, what)
        })?;
    } else {
        Man::new(program.line.clone()).render(out)?;
    }
    Ok(Exit::Fine)
}

fn write(program: &clap::Command, folder: &Path) -> io::Result<()> {
    let folder = Folder::make(folder)?;
    let page = |command: clap::Command, name: String| {
        let mut text = Vec::new();
        Man::new(command).title(name.to_uppercase()).render(&mut text)?;
        folder.replace(format!("{name}.1"), |file| file.write_all(&text))
    };
    let mut built = program.clone();
    built.build();
    for command in built.get_subcommands().filter(|command| command.get_name() != "help") {
        page(command.clone(), format!("memreel-{}", command.get_name()))?;
    }
    page(program.clone(), "memreel".to_owned())
}
