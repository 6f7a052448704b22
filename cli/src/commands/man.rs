//! `memreel man`: manual pages, one on standard output or all into a folder.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::CommandFactory;
use clap_mangen::Man;

use crate::{args::Args, exit::Exit};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  memreel man | man -l -
  memreel man --to ~/.local/share/man/man1

Exit status: 0 printed or written, 2 wrong usage, 3 a folder that cannot be written to.")]
pub(crate) struct Options {
    /// Write the pages of every command into this folder
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
}

pub(crate) fn run(options: &Options, out: &mut impl Write) -> io::Result<Exit> {
    let Some(folder) = &options.to else {
        Man::new(Args::command()).render(out)?;
        return Ok(Exit::Fine);
    };
    match write(folder) {
        Ok(()) => Ok(Exit::Fine),
        Err(error) => {
            eprintln!("memreel: cannot write into {}: {error}", folder.display());
            Ok(Exit::Unreadable)
        }
    }
}

fn write(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut program = Args::command();
    program.build();
    let page = |command: clap::Command, name: String| {
        let mut text = Vec::new();
        Man::new(command).title(name.to_uppercase()).render(&mut text)?;
        fs::write(folder.join(format!("{name}.1")), text)
    };
    for command in program.get_subcommands().filter(|command| command.get_name() != "help") {
        page(command.clone(), format!("memreel-{}", command.get_name()))?;
    }
    page(Args::command(), "memreel".to_owned())
}
