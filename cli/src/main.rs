//! The program: parse, run, exit code.

#![forbid(unsafe_code)]

mod args;
mod bytes;
mod colour;
mod commands;
mod exit;
mod folded;
mod input;
mod moment;
mod names;
mod plot;
mod output;
mod progress;
mod pytorch;
mod sites;
mod lazy;
mod table;

use std::{
    io::{self, ErrorKind, Write},
    path::Path,
    process::{ExitCode, exit},
};

use clap::{
    Parser,
    error::{ContextKind, ContextValue},
};

use args::{Args, Command};
use exit::Exit;

fn main() -> ExitCode {
    let args = Args::try_parse().unwrap_or_else(|error| refused(&error));
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let done = match &args.command {
        Command::At(options) => commands::at::run(options, &mut out),
        Command::Churn(options) => commands::churn::run(options, &mut out),
        Command::Compare(options) => commands::compare::run(options, &mut out),
        Command::Completions(options) => commands::completions::run(options, &mut out),
        Command::Convert(options) => commands::convert::run(options, &mut out),
        Command::Diff(options) => commands::diff::run(options, &mut out),
        Command::Fix(options) => commands::fix::run(options, &mut out),
        Command::Fragmentation(options) => commands::fragmentation::run(options, &mut out),
        Command::Gate(options) => commands::gate::run(options, &mut out),
        Command::Leaks(options) => commands::leaks::run(options, &mut out),
        Command::Man(options) => commands::man::run(options, &mut out),
        Command::Memory(options) => commands::memory::run(options, &mut out),
        Command::Merge(options) => commands::merge::run(options, &mut out),
        Command::Oom(options) => commands::oom::run(options, &mut out),
        Command::Replay(options) => commands::replay::run(options, &mut out),
        Command::Segments(options) => commands::segments::run(options, &mut out),
        Command::Slim(options) => commands::slim::run(options, &mut out),
        Command::Split(options) => commands::split::run(options, &mut out),
        Command::Stats(options) => commands::stats::run(options, &mut out),
        Command::Timeline(options) => commands::timeline::run(options, &mut out),
        Command::Top(options) => commands::top::run(options, &mut out),
        Command::Trace(options) => commands::trace::run(options, &mut out),
        Command::Validate(options) => commands::validate::run(options, &mut out),
    };
    let written = done.and_then(|exit| out.flush().map(|()| exit));
    written.unwrap_or_else(unwritten).into()
}

/// Tells what is wrong with the command line, or prints the help that it asks for.
fn refused(error: &clap::Error) -> ! {
    let said = error.get(ContextKind::InvalidSubcommand);
    if let Some(ContextValue::String(said)) = said
        && Path::new(said).exists()
    {
        eprintln!("memreel: {said} is a file, and a command comes first; to begin with: memreel top {said}");
        exit(Exit::Usage as i32);
    }
    error.exit()
}

/// Who closes the pipe has read enough, which is no failure.
fn unwritten(error: io::Error) -> Exit {
    if error.kind() == ErrorKind::BrokenPipe {
        return Exit::Fine;
    }
    eprintln!("memreel: cannot write: {error}");
    Exit::Unreadable
}
