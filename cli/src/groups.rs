//! The commands by the question that they answer, as `memreel --help` lists them.

#![forbid(unsafe_code)]

use clap::{Command, CommandFactory, builder::Styles};

use crate::args::Args;

/// The headings of `memreel --help`, each with its commands.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Begin here:", &["summary", "view", "record"]),
    ("Why did a request fail?", &["oom", "fragmentation", "replay"]),
    ("Who holds the memory?", &["owners", "top", "leaks", "churn", "diff", "ranks"]),
    ("When, and what is where?", &["timeline", "at", "trace", "segments", "memory", "stats", "compare"]),
    ("Change a file:", &["recover", "fix", "slim", "merge", "split", "convert"]),
    ("Check a file:", &["gate", "validate"]),
    (
        "The rest:",
        &[
            #[cfg(feature = "mcp")]
            "mcp",
            "completions",
            "man",
            "help",
        ],
    ),
];

/// Returns the program's command line. Its help lists the commands by [`GROUPS`].
pub(crate) fn program() -> Command {
    let program = Args::command();
    let template = template(&program);
    program.help_template(template)
}

/// Returns the template of the program's help. clap has no headings for commands, so the list is part of it.
fn template(program: &Command) -> String {
    let styles = Styles::default();
    let (heading, name) = (styles.get_header(), styles.get_literal());
    let width = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or(0);
    let line = |command: &&str| {
        let found = program.find_subcommand(command);
        let about = found.and_then(Command::get_about).map_or_else(|| HELP.to_owned(), ToString::to_string);
        let about = about.trim_end_matches('.');
        format!("  {name}{command}{name:#}{:gap$}{about}\n", "", gap = width - command.len() + 2)
    };
    let group = |(title, names): &(&str, &[&str])| {
        let lines: String = names.iter().map(line).collect();
        format!("{heading}{title}{heading:#}\n{lines}\n")
    };
    let groups: String = GROUPS.iter().map(group).collect();
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{heading}Options:{heading:#}\n\
         {{options}}{{after-help}}"
    )
}

/// clap adds this command itself.
const HELP: &str = "Print the page of a command";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut program = Args::command();
        program.build();
        let mut all: Vec<&str> = program.get_subcommands().map(Command::get_name).collect();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        all.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, all);
    }
}
