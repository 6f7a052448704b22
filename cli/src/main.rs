//! The program `memreel`: parses the command line, runs a command, returns its exit status.

#![forbid(unsafe_code)]

mod args;
mod bytes;
mod colour;
mod commands;
mod each;
mod exit;
mod failure;
mod folded;
mod input;
mod json;
mod labels;
mod lazy;
mod moment;
mod names;
mod options;
mod output;
mod plot;
mod progress;
mod pytorch;
mod rest;
mod site_text;
mod sites;
mod table;
mod text;
mod warnings;

use std::{
    io::{self, ErrorKind, Write},
    path::Path,
    process::{ExitCode, exit},
};

use clap::{
    CommandFactory, Parser,
    error::{ContextKind, ContextValue},
};

use args::{Args, Command};
use exit::Exit;
use failure::Failure;

fn main() -> ExitCode {
    let args = Args::try_parse().unwrap_or_else(|error| refuse(&error));
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let done = run(&args.command, &mut out).or_else(Failure::report);
    let flushed = done.and_then(|exit| out.flush().map(|()| exit));
    flushed.unwrap_or_else(unwritten).into()
}

fn run(command: &Command, out: &mut impl Write) -> Result<Exit, Failure> {
    match command {
        Command::At(options) => commands::at::run(options, out),
        Command::Churn(options) => commands::churn::run(options, out),
        Command::Compare(options) => commands::compare::run(options, out),
        Command::Completions(options) => commands::completions::run(options, Args::command(), out),
        Command::Convert(options) => commands::convert::run(options, out),
        Command::Diff(options) => commands::diff::run(options, out),
        Command::Fix(options) => commands::fix::run(options, out),
        Command::Fragmentation(options) => commands::fragmentation::run(options, out),
        Command::Gate(options) => commands::gate::run(options, out),
        Command::Leaks(options) => commands::leaks::run(options, out),
        Command::Man(options) => commands::man::run(options, &Args::command(), out),
        Command::Memory(options) => commands::memory::run(options, out),
        Command::Merge(options) => commands::merge::run(options, out),
        Command::Oom(options) => commands::oom::run(options, out),
        Command::Replay(options) => commands::replay::run(options, out),
        Command::Segments(options) => commands::segments::run(options, out),
        Command::Slim(options) => commands::slim::run(options, out),
        Command::Split(options) => commands::split::run(options, out),
        Command::Stats(options) => commands::stats::run(options, out),
        Command::Timeline(options) => commands::timeline::run(options, out),
        Command::Top(options) => commands::top::run(options, out),
        Command::Trace(options) => commands::trace::run(options, out),
        Command::Validate(options) => commands::validate::run(options, out),
    }
}

/// Reports an error in the command line, or prints the help that it asks for, and exits.
fn refuse(error: &clap::Error) -> ! {
    let word = error.get(ContextKind::InvalidSubcommand);
    if let Some(ContextValue::String(word)) = word
        && let Some(what) = file_kind(word)
    {
        eprintln!("memreel: {word} is {what}; give a command first, for example: memreel top {word}");
        exit(Exit::Usage as i32);
    }
    error.exit()
}

/// Describes a word that is a file, or the name of one, and so not a misspelt command.
fn file_kind(word: &str) -> Option<&'static str> {
    let path = Path::new(word);
    if path.exists() {
        Some("a file")
    } else if path.extension().is_some() || word.contains('/') {
        Some("a file name, not a command, and no such file exists")
    } else {
        None
    }
}

/// Reports that standard output failed. A closed pipe is not a failure: its reader has read enough.
fn unwritten(error: io::Error) -> Exit {
    if error.kind() == ErrorKind::BrokenPipe {
        return Exit::Fine;
    }
    eprintln!("memreel: cannot write: {error}");
    Exit::Unreadable
}
