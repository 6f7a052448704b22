//! A command line: which command it is, with which options.

#![forbid(unsafe_code)]

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use clap::error::ErrorKind;

use crate::row::{Program, Ready};

/// Reads a command line: the name of the program, then its words.
pub(crate) fn parsed(words: Vec<OsString>, program: &Program) -> Result<Ready, clap::Error> {
    let line = &program.line;
    let matches = line.clone().try_get_matches_from(with_command(words, line))?;
    let asked = matches.subcommand().and_then(|(name, options)| {
        let row = program.rows.iter().find(|row| row.name == name)?;
        Some(row.ready(options))
    });
    asked.unwrap_or_else(|| Err(clap::Error::new(ErrorKind::MissingSubcommand)))
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
