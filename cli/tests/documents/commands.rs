//! The pages of the commands, docs/commands/NAME.md: each is its help and a real example.

#![forbid(unsafe_code)]

use std::{collections::BTreeSet, fs};

use memreel_testing::repository;

use crate::{is_blessing, memreel};

const RANK0: &str = "fixtures/torch-2.11/ranks/rank0.pickle";
const RANK1: &str = "fixtures/torch-2.11/ranks/rank1.pickle";
const FRAGMENTED: &str = "fixtures/torch-2.11/snapshots/oom_fragment.pickle";
const NO_HISTORY: &str = "fixtures/torch-2.11/snapshots/no_history.pickle";

/// Each command with the words of its example, or none if it serves, records, or writes a file.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("summary", &["summary", RANK1]),
    ("view", &[]),
    ("report", &["report", "--anonymise", RANK1]),
    ("record", &[]),
    ("attach", &[]),
    ("watch", &[]),
    ("oom", &["oom", FRAGMENTED]),
    ("fragmentation", &["fragmentation", FRAGMENTED]),
    ("replay", &["replay", "--conf", "expandable_segments:True", FRAGMENTED]),
    ("fit", &[]),
    ("owners", &["owners", RANK1]),
    ("top", &["top", "-n", "5", RANK0]),
    ("leaks", &["leaks", RANK1]),
    ("flamegraph", &[]),
    ("churn", &["churn", "-n", "5", RANK0]),
    ("diff", &["diff", RANK0, RANK1]),
    ("ranks", &["ranks", "fixtures/torch-2.11/ranks/"]),
    ("timeline", &["timeline", RANK1]),
    ("at", &["at", "peak", FRAGMENTED]),
    ("torch", &["torch", "stats", RANK1]),
    ("recover", &[]),
    ("fix", &[]),
    ("slim", &[]),
    ("merge", &[]),
    ("split", &[]),
    ("convert", &["convert", "--to", "csv", NO_HISTORY]),
    ("gate", &["gate", "--max-peak", "1GiB", RANK1]),
    ("validate", &["validate", RANK1]),
    ("mcp", &[]),
    ("doctor", &[]),
    ("completions", &[]),
    ("man", &[]),
];

/// The longest output that a page has.
const MAX_LINES: usize = 40;

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Returns the page of a command.
fn page(command: &str, example: &[&str]) -> String {
    let help = memreel(&[command, "--help"]);
    assert!(help.status.success(), "{command}: {}", text(help.stderr));
    let help = text(help.stdout);
    let title = help.lines().next().unwrap();
    let mut page = format!("# memreel {command}\n\n{title}.\n\n```text\n{}\n```\n", help.trim_end());
    if !example.is_empty() {
        let output = memreel(example);
        let status = output.status.code().unwrap();
        assert!(status < 2 || status == 4, "{example:?}: {}", text(output.stderr));
        let printed = text(output.stdout);
        let lines: Vec<&str> = printed.trim_end().lines().collect();
        let shown = lines[..lines.len().min(MAX_LINES)].join("\n");
        // A page of Markdown has blocks of its own.
        let fence = if shown.contains("```") { "````" } else { "```" };
        page += &format!("\n## Example\n\n{fence}text\n$ memreel {}\n{shown}\n{fence}\n", example.join(" "));
        if lines.len() > MAX_LINES {
            page += &format!("\nThese are the first {MAX_LINES} of {} lines.\n", lines.len());
        }
        if status != 0 {
            page += &format!("\nIt ends with status {status}.\n");
        }
    }
    page
}

/// Returns the commands under their headings, as `memreel --help` has them: a heading has no name.
fn listed() -> Vec<(Option<String>, String)> {
    let help = text(memreel(&["--help"]).stdout);
    let lists = help.lines().skip_while(|line| *line != "Begin here:").take_while(|line| *line != "Options:");
    let lines = lists.filter(|line| !line.is_empty()).map(|line| match line.strip_prefix("  ") {
        None => (None, line.trim_end_matches(':').to_owned()),
        Some(row) => {
            let (name, about) = row.split_once(' ').unwrap();
            (Some(name.to_owned()), about.trim().to_owned())
        }
    });
    lines.filter(|(name, _)| name.as_deref() != Some("help")).collect()
}

/// Returns docs/commands/index.md, the list.
fn list() -> String {
    let mut list = "# Commands\n\nEach page has the help of a command and, where it answers a question, the output of an example \
                    with files of this\nrepository. A test makes these pages and compares them with the program.\n"
        .to_owned();
    for (name, about) in listed() {
        match name {
            None => list += &format!("\n## {about}\n\n"),
            Some(name) => list += &format!("- [{name}]({name}.md): {about}\n"),
        }
    }
    list
}

fn compare(name: &str, expected: &str) -> Option<String> {
    let path = repository("docs/commands").join(name);
    if is_blessing() {
        fs::write(&path, expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let differs = || {
        let line = expected.lines().zip(found.lines()).find(|(new, old)| new != old);
        format!("docs/commands/{name}, from {line:?}")
    };
    (found != expected).then(differs)
}

#[test]
#[cfg_attr(not(feature = "mcp"), ignore = "the pages are those of a program that has every command")]
fn pages_have_what_the_program_prints() {
    let named: BTreeSet<&str> = EXAMPLES.iter().map(|(name, _)| *name).collect();
    let commands: BTreeSet<String> = listed().into_iter().filter_map(|(name, _)| name).collect();
    assert_eq!(named, commands.iter().map(String::as_str).collect(), "each command has a row of EXAMPLES");
    let pages = EXAMPLES.iter().map(|(name, example)| (format!("{name}.md"), page(name, example)));
    let all = pages.chain([("index.md".to_owned(), list())]);
    let differ: Vec<String> = all.filter_map(|(name, page)| compare(&name, &page)).collect();
    assert!(differ.is_empty(), "run with MEMREEL_BLESS=1, and read the difference: {differ:#?}");
}
