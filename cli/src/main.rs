//! The program `memreel`: parses the command line, runs a command, returns its exit status.

#![forbid(unsafe_code)]

mod args;
mod bytes;
mod colour;
mod commands;
mod counted;
mod each;
mod exit;
mod failure;
mod fit;
mod folded;
mod groups;
mod input;
mod json;
mod labels;
mod lazy;
mod moment;
mod names;
mod options;
mod output;
mod owner_table;
mod plot;
mod progress;
mod pytorch;
mod rest;
mod site_text;
mod sites;
mod table;
mod text;
mod torch_dump;
mod warnings;
mod width;

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, ErrorKind, Write},
    path::Path,
    process::{ExitCode, exit},
};

use clap::{
    FromArgMatches,
    error::{ContextKind, ContextValue},
};

use args::{Args, Command};
use exit::Exit;
use failure::Failure;

fn main() -> ExitCode {
    let words: Vec<OsString> = env::args_os().collect();
    let program = groups::program();
    let matches = program.clone().try_get_matches_from(with_command(words, &program));
    let args = matches.and_then(|matches| Args::from_arg_matches(&matches));
    let args = args.unwrap_or_else(|error| refuse(&error));
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
        Command::Completions(options) => commands::completions::run(options, groups::program(), out),
        Command::Convert(options) => commands::convert::run(options, out),
        Command::Diff(options) => commands::diff::run(options, out),
        Command::Record(options) => commands::record::run(options, out),
        Command::Recover(options) => commands::recover::run(options, out),
        Command::Fix(options) => commands::fix::run(options, out),
        Command::Fragmentation(options) => commands::fragmentation::run(options, out),
        Command::Gate(options) => commands::gate::run(options, out),
        Command::Leaks(options) => commands::leaks::run(options, out),
        Command::Man(options) => commands::man::run(options, &groups::program(), out),
        Command::Memory(options) => commands::memory::run(options, out),
        Command::Merge(options) => commands::merge::run(options, out),
        Command::Oom(options) => commands::oom::run(options, out),
        Command::Owners(options) => commands::owners::run(options, out),
        Command::Replay(options) => commands::replay::run(options, out),
        Command::Segments(options) => commands::segments::run(options, out),
        Command::Slim(options) => commands::slim::run(options, out),
        Command::Split(options) => commands::split::run(options, out),
        Command::Stats(options) => commands::stats::run(options, out),
        Command::Summary(options) => commands::summary::run(options, out),
        Command::Timeline(options) => commands::timeline::run(options, out),
        Command::Top(options) => commands::top::run(options, out),
        Command::Trace(options) => commands::trace::run(options, out),
        Command::Validate(options) => commands::validate::run(options, out),
    }
}

/// Puts the command `summary` before files, if the first of them, or an option, is where a command is missing.
fn with_command(mut words: Vec<OsString>, program: &clap::Command) -> Vec<OsString> {
    let is_command = |word: &OsStr| word == "help" || program.find_subcommand(word).is_some();
    let is_file = |word: &OsString| word == "-" || !is_command(word) && Path::new(word).exists();
    let is_option =
        |word: &OsString| word.to_string_lossy().starts_with("--") && word != "--version" && word != "--help";
    match &words[..] {
        // `memreel FILE top`
        [_, first, second, ..] if is_file(first) && is_command(second) && !is_file(second) => {
            words.swap(1, 2)
        }
        [_, first, ..] if is_file(first) => words.insert(1, "summary".into()),
        // `memreel --json FILE`
        [_, first, rest @ ..] if is_option(first) && rest.last().is_some_and(is_file) => {
            words.insert(1, "summary".into());
        }
        _ => {}
    }
    words
}

/// Reports an error in the command line, or prints the help that it asks for, and exits.
fn refuse(error: &clap::Error) -> ! {
    let word = error.get(ContextKind::InvalidSubcommand);
    if let Some(ContextValue::String(word)) = word
        && is_file_name(word)
    {
        eprintln!(
            "memreel: {word} is a file name, not a command, and no such file exists; give a command first, for \
             example: memreel top {word}"
        );
        exit(Exit::Usage as i32);
    }
    error.exit()
}

/// Whether a word is the name of a file, and so not a misspelt command.
fn is_file_name(word: &str) -> bool {
    Path::new(word).extension().is_some() || word.contains('/')
}

/// Reports that standard output failed. A closed pipe is not a failure: its reader has read enough.
fn unwritten(error: io::Error) -> Exit {
    if error.kind() == ErrorKind::BrokenPipe {
        return Exit::Fine;
    }
    eprintln!("memreel: cannot write: {error}");
    Exit::Unreadable
}
