//! The pages of the commands, commands/NAME.md: each is its help and a real example.
#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::{Command, Output},
};

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

/// The width of the terminal that the pages show.
const COLUMNS: &str = "110";

/// The program, and the clone whose files it reads.
struct Program<'a> {
    path: &'a Path,
    clone: &'a Path,
}

impl Program<'_> {
    fn run(&self, words: &[&str]) -> Result<Output, String> {
        let mut command = Command::new(self.path);
        let output = command.args(words).current_dir(self.clone).env("COLUMNS", COLUMNS).output();
        output.map_err(|error| format!("{}: {error}", self.path.display()))
    }

    /// Returns what a help prints.
    fn help(&self, words: &[&str]) -> Result<String, String> {
        let output = self.run(words)?;
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(format!("memreel {}: {}", words.join(" "), text(&output.stderr))),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the page of each command, and `commands/index.md`, their list.
pub(super) fn pages(program: &Path, clone: &Path) -> Result<BTreeMap<String, String>, String> {
    let program = Program { path: program, clone };
    let help = program.help(&["--help"])?;
    let listed = listed(&help);
    let commands: BTreeSet<&str> = listed.iter().filter_map(|(name, _)| *name).collect();
    let named: BTreeSet<&str> = EXAMPLES.iter().map(|(name, _)| *name).collect();
    if let Some(name) = commands.symmetric_difference(&named).next() {
        return Err(format!(
            "{name} is either no command or has no row of EXAMPLES (dev/xtask/src/pages/commands.rs)"
        ));
    }
    let page =
        |(name, words): &(&str, &[&str])| Ok((format!("commands/{name}.md"), page(&program, name, words)?));
    let mut pages = EXAMPLES.iter().map(page).collect::<Result<BTreeMap<_, _>, String>>()?;
    pages.insert("commands/index.md".to_owned(), list(&listed));
    Ok(pages)
}

/// Returns the page of a command.
fn page(program: &Program<'_>, command: &str, words: &[&str]) -> Result<String, String> {
    let help = program.help(&[command, "--help"])?;
    let title = help.lines().next().unwrap_or_default();
    let mut page = format!("# memreel {command}\n\n{title}.\n\n```text\n{}\n```\n", help.trim_end());
    if !words.is_empty() {
        page += &example(program, words)?;
    }
    Ok(page)
}

/// Returns what an example prints.
fn example(program: &Program<'_>, words: &[&str]) -> Result<String, String> {
    let output = program.run(words)?;
    // 1 and 4 are answers: a request that failed, and a limit that is exceeded.
    let status = output.status.code().filter(|status| matches!(status, 0 | 1 | 4));
    let status = status.ok_or_else(|| format!("{words:?}: {}: {}", output.status, text(&output.stderr)))?;
    let printed = text(&output.stdout);
    let lines: Vec<&str> = printed.trim_end().lines().collect();
    let shown = lines[..lines.len().min(MAX_LINES)].join("\n");
    // A page of Markdown has blocks of its own.
    let fence = if shown.contains("```") { "````" } else { "```" };
    let mut text = format!("\n## Example\n\n{fence}text\n$ memreel {}\n{shown}\n{fence}\n", words.join(" "));
    if lines.len() > MAX_LINES {
        text += &format!("\nThese are the first {MAX_LINES} of {} lines.\n", lines.len());
    }
    if status != 0 {
        text += &format!("\nIt ends with status {status}.\n");
    }
    Ok(text)
}

/// Returns the commands under their headings, as `memreel --help` has them: a heading has no name.
fn listed(help: &str) -> Vec<(Option<&str>, &str)> {
    let lists =
        help.lines().skip_while(|line| *line != "Getting started:").take_while(|line| *line != "Options:");
    let lines = lists.filter(|line| !line.is_empty()).map(|line| match line.strip_prefix("  ") {
        None => (None, line.trim_end_matches(':')),
        Some(row) => {
            let (name, about) = row.split_once(' ').unwrap_or((row, ""));
            (Some(name), about.trim())
        }
    });
    lines.filter(|(name, _)| *name != Some("help")).collect()
}

fn list(listed: &[(Option<&str>, &str)]) -> String {
    let mut list = "# Commands\n\nEach page has the help of a command and, where it answers a question, the output of an example \
                    with files of the\nrepository. The program itself prints both when the site is made.\n"
        .to_owned();
    for (name, about) in listed {
        match name {
            None => list += &format!("\n## {about}\n\n"),
            Some(name) => list += &format!("- [{name}]({name}.md): {about}\n"),
        }
    }
    list
}
