//! A command line: which command it is, and the function that runs it.

#![forbid(unsafe_code)]

use std::{
    ffi::{OsStr, OsString},
    io::Write,
    path::Path,
};

use clap::FromArgMatches;

use crate::{
    args::{Args, Command},
    commands,
    exit::Exit,
    failure::Failure,
    groups,
};

/// Reads a command line: the name of the program, then its words.
pub(crate) fn parsed(words: Vec<OsString>, program: &clap::Command) -> Result<Args, clap::Error> {
    let matches = program.clone().try_get_matches_from(with_command(words, program))?;
    Args::from_arg_matches(&matches)
}

/// Runs a command.
pub(crate) fn run_command(command: &Command, out: &mut impl Write) -> Result<Exit, Failure> {
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
        #[cfg(feature = "mcp")]
        Command::Mcp(_) => Err(commands::mcp::refuse()),
        Command::Memory(options) => commands::memory::run(options, out),
        Command::Merge(options) => commands::merge::run(options, out),
        Command::Oom(options) => commands::oom::run(options, out),
        Command::Owners(options) => commands::owners::run(options, out),
        Command::Ranks(options) => commands::ranks::run(options, out),
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
        Command::View(options) => commands::view::run(options, out),
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
