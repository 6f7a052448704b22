//! `memreel completions`: what a shell needs to complete commands and options.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{args::Args, exit::Exit};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  memreel completions bash > ~/.local/share/bash-completion/completions/memreel
  memreel completions zsh > ~/.zfunc/_memreel

Exit status: 0 printed, 2 wrong usage.")]
pub(crate) struct Options {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(options: &Options, out: &mut impl Write) -> io::Result<Exit> {
    // The generator stops the program where it cannot write, so it writes where it can.
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Args::command(), "memreel", &mut script);
    out.write_all(&script)?;
    Ok(Exit::Fine)
}
