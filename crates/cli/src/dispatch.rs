//! A command line: which command it is, with which options.

#![forbid(unsafe_code)]

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use clap::error::ErrorKind;
use memreel_snapshot::words::Bytes;

use crate::row::{Program, Ready};

/// Reads a command line: the name of the program, then its words.
pub(crate) fn parsed(words: Vec<OsString>, program: &Program) -> Result<Ready, clap::Error> {
    let line = &program.line;
    let words = with_whole_sizes(with_command(words, line));
    let matches = line.clone().try_get_matches_from(words)?;
    let asked = matches.subcommand().and_then(|(name, options)| {
        let row = program.rows.iter().find(|row| row.name == name)?;
        Some(row.ready(options))
    });
    asked.unwrap_or_else(|| Err(clap::Error::new(ErrorKind::MissingSubcommand)))
}

/// Joins the two words of a size, as in `--max-peak 200 MiB`. The words of a program that is recorded stay as they are.
fn with_whole_sizes(words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|command| command == "record") {
        return words;
    }
    let is_size = |number: &OsStr, unit: &OsStr| {
        let is_unit = |unit: &str| {
            unit.starts_with(|c: char| c.is_ascii_alphabetic()) && Bytes::parse(&format!("1{unit}")).is_some()
        };
        // `forward=200` and `--max-peak=200` too.
        let is_number =
            |text: &str| text.rsplit('=').next().is_some_and(|number| number.parse::<f64>().is_ok());
        number.to_str().is_some_and(is_number)
            && unit.to_str().is_some_and(is_unit)
            && !Path::new(unit).exists()
    };
    let is_option = |word: &OsStr| word.to_string_lossy().starts_with("--");
    let mut whole: Vec<OsString> = Vec::with_capacity(words.len());
    for word in words {
        match &mut whole[..] {
            [.., option, number] if (is_option(option) || is_option(number)) && is_size(number, &word) => {
                number.push(word)
            }
            _ => whole.push(word),
        }
    }
    whole
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_may_be_two_words() {
        let joined = |words: &[&str]| {
            with_whole_sizes(words.iter().map(OsString::from).collect()).join(OsStr::new(" "))
        };
        assert_eq!(
            joined(&["memreel", "gate", "--max-peak", "200", "MiB", "a"]),
            "memreel gate --max-peak 200MiB a"
        );
        assert_eq!(
            joined(&["memreel", "gate", "--max-peak", "1.5", "gib"]),
            "memreel gate --max-peak 1.5gib"
        );
        assert_eq!(
            joined(&["memreel", "gate", "--max-peak", "forward=2", "GiB", "--max-live=1", "MB", "a"]),
            "memreel gate --max-peak forward=2GiB --max-live=1MB a"
        );
        for unchanged in
            ["memreel top -n 5 MiB", "memreel record a --limit 2 GiB", "memreel fit 4 MB", "memreel"]
        {
            assert_eq!(joined(&unchanged.split(' ').collect::<Vec<_>>()), unchanged);
        }
    }
}
