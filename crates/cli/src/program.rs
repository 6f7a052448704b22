//! The program's command line. Its help lists the commands by the questions that they answer.

#![forbid(unsafe_code)]

use std::ffi::OsString;

use clap::{Command, builder::Styles};

use crate::{
    commands::{groups, torch},
    input::Opener,
    row::{Program, Row},
};

/// The part of the help after the list of commands.
const AFTER_HELP: &str = "\
A snapshot is a file written by torch.cuda.memory._dump_snapshot or
memreel::save. This includes snapshots from AMD GPUs, which PyTorch treats as
torch.cuda devices. Any command that takes a snapshot also takes a memreel tape:
the file that a running program records into, for example when
MEMREEL_TAPE=run.tape is set.

Examples:
  memreel snapshot.pickle         what it is, and what to run next
  memreel oom snapshot.pickle     why a request ran out of memory
  memreel view snapshot.pickle    explore it in a browser
  memreel top snapshot.pickle     what holds the memory at the peak
  memreel help top                the help page of a command";

/// Returns the program that these words start.
pub(crate) fn program(words: Vec<OsString>) -> Program {
    let groups = groups();
    let line = Command::new("memreel")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Answer questions about GPU memory from PyTorch snapshots and memreel recordings")
        .override_usage("memreel FILE...\n       memreel COMMAND [OPTIONS] FILE...")
        .after_help(AFTER_HELP)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .help_template(template(&groups));
    let mut rows: Vec<Row> = groups.into_iter().flat_map(|(_, rows)| rows).collect();
    let line = line.subcommands(rows.iter().map(Row::line)).subcommands(torch::hidden());
    rows.extend(torch::rows());
    Program { line, rows, words, make: program, opener: Opener::Files }
}

/// Returns the template of the program's help. clap has no headings for commands, so the list is part of it.
fn template(groups: &[(&str, Vec<Row>)]) -> String {
    let styles = Styles::default();
    let (heading, name) = (styles.get_header(), styles.get_literal());
    let names = groups.iter().flat_map(|(_, rows)| rows).map(|row| row.name);
    let width = names.map(str::len).max().unwrap_or(0);
    let line = |command: &str, about: &str| {
        format!("  {name}{command}{name:#}{:gap$}{about}\n", "", gap = width - command.len() + 2)
    };
    let list = |(title, rows): &(&str, Vec<Row>)| {
        let lines: String = rows.iter().map(|row| line(row.name, row.about)).collect();
        format!("{heading}{title}{heading:#}\n{lines}")
    };
    let lists = groups.iter().map(list).collect::<Vec<_>>().join("\n");
    // clap adds this command itself.
    let help = line("help", "Print the help page of a command");
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{lists}{help}\n{heading}Options:{heading:#}\n\
         {{options}}{{after-help}}"
    )
}
