//! A row of the table of commands: a name, the purpose of the command, its options, and the function that runs it.

#![forbid(unsafe_code)]

use std::ffi::OsString;

use clap::ArgMatches;

use crate::{exit::Exit, failure::Failure, input::Opener, text::Page};

/// The program itself, for the commands that are about it.
pub(crate) struct Program {
    /// Its command line.
    pub(crate) line: clap::Command,
    /// Its commands.
    pub(crate) rows: Vec<Row>,
    /// The words that start it, before its command; none for a question.
    pub(crate) words: Vec<OsString>,
    /// Returns it again, for another thread.
    pub(crate) make: Maker,
    /// Opens the files that its command line names.
    pub(crate) opener: Opener,
}

/// Returns the program that some words start.
pub(crate) type Maker = fn(Vec<OsString>) -> Program;

/// A command whose options were parsed.
pub(crate) type Ready = Box<dyn FnOnce(&Program, &mut Page) -> Result<Exit, Failure>>;

/// Reads the options of a command.
type Reader = Box<dyn Fn(&ArgMatches) -> Result<Ready, clap::Error>>;

/// A command of the program.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Whether it only answers questions about files, so that `memreel mcp` offers it as a tool.
    #[cfg_attr(not(feature = "mcp"), expect(dead_code, reason = "only its server has tools"))]
    pub(crate) is_tool: bool,
    augment: fn(clap::Command) -> clap::Command,
    ready: Reader,
}

impl Row {
    /// Returns the command with its options.
    pub(crate) fn line(&self) -> clap::Command {
        // The options that several commands share bring a description of their own.
        (self.augment)(clap::Command::new(self.name)).about(self.about).long_about(None)
    }

    /// Returns a row whose command is followed by another.
    pub(crate) fn group(
        name: &'static str,
        about: &'static str,
        augment: fn(clap::Command) -> clap::Command,
        ready: fn(&ArgMatches) -> Result<Ready, clap::Error>,
    ) -> Row {
        Row { name, about, is_tool: false, augment, ready: Box::new(ready) }
    }

    /// Reads the options.
    pub(crate) fn ready(&self, options: &ArgMatches) -> Result<Ready, clap::Error> {
        (self.ready)(options)
    }
}

/// A command that answers questions about files and writes none: also a tool of `memreel mcp`.
pub(crate) fn question<O: clap::Args + 'static>(
    name: &'static str,
    about: &'static str,
    run: fn(&O, &Opener, &mut Page) -> Result<Exit, Failure>,
) -> Row {
    Row { is_tool: true, ..command(name, about, run) }
}

/// A command that writes files, or serves, or runs a program.
pub(crate) fn command<O: clap::Args + 'static>(
    name: &'static str,
    about: &'static str,
    run: fn(&O, &Opener, &mut Page) -> Result<Exit, Failure>,
) -> Row {
    row(name, about, move |options, program, out| run(options, &program.opener, out))
}

/// A command about the program itself.
pub(crate) fn of_program<O: clap::Args + 'static>(
    name: &'static str,
    about: &'static str,
    run: fn(&O, &Program, &mut Page) -> Result<Exit, Failure>,
) -> Row {
    row(name, about, run)
}

fn row<O: clap::Args + 'static>(
    name: &'static str,
    about: &'static str,
    run: impl Fn(&O, &Program, &mut Page) -> Result<Exit, Failure> + Copy + 'static,
) -> Row {
    let ready = move |options: &ArgMatches| -> Result<Ready, clap::Error> {
        let options = O::from_arg_matches(options)?;
        Ok(Box::new(move |program, out| run(&options, program, out)))
    };
    Row { name, about, is_tool: false, augment: O::augment_args, ready: Box::new(ready) }
}
