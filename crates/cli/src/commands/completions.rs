//! `memreel completions`: a shell's completion script.

#![forbid(unsafe_code)]

use std::io::Write;

use clap_complete::Shell;

use crate::{exit::Exit, failure::Failure, row::Program, text::Page};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  memreel completions bash > ~/.local/share/bash-completion/completions/memreel
  memreel completions zsh > ~/.zfunc/_memreel

Exit status: 0 printed; 2 usage error.")]
pub(crate) struct Options {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(options: &Options, program: &Program, out: &mut Page) -> Result<Exit, Failure> {
    // The generator panics where it cannot write, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut program.line.clone(), "memreel", &mut script);
    out.write_all(&script)?;
    Ok(Exit::Fine)
}
