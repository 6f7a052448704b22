//! Commands, options and paths that pages name.

#![forbid(unsafe_code)]

use std::{collections::HashMap, fs, process::Command};

use memreel_testing::repository;

use crate::{memreel, name, pages};

/// The folders whose names begin a path in a page.
const FOLDERS: [&str; 9] =
    ["docs", "examples", "fixtures", "src", "schema", "crates", "python", "tests", "dev"];

/// Returns the texts of a page that are code: spans, and lines of blocks of commands.
fn code(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut kind = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), kind) {
            (Some(begun), None) => kind = Some(begun),
            (Some(_), Some(_)) => kind = None,
            (None, None) => found.extend(line.split('`').skip(1).step_by(2).map(str::to_owned)),
            (None, Some("console" | "shell" | "sh" | "yaml")) => {
                // `- run: memreel …` and `- memreel …` are steps of jobs.
                let line = line.trim();
                let command = ["$ ", "- run: ", "- "]
                    .iter()
                    .find_map(|before| line.strip_prefix(before))
                    .unwrap_or(line);
                found.push(command.split(" #").next().unwrap().to_owned());
            }
            (None, Some(_)) => {}
        }
    }
    found
}

/// The help of each command, once.
#[derive(Default)]
struct Helps(HashMap<String, Option<String>>);

impl Helps {
    /// Returns the help of a command; `None` if there is no such command.
    fn of(&mut self, command: &[&str]) -> Option<&str> {
        let ask = || {
            let words: Vec<&str> = command.iter().copied().chain(["--help"]).collect();
            let output = memreel(&words);
            output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
        };
        self.0.entry(command.join(" ")).or_insert_with(ask).as_deref()
    }
}

/// Returns what is wrong with a command line of memreel.
fn wrong(line: &str, helps: &mut Helps) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = words.iter().position(|word| *word == "memreel")? + 1;
    // `MEMREEL=… memreel`, and `target/release/memreel` are the program too; a sentence is not.
    if !words[..after - 1].iter().all(|word| word.contains('=')) {
        return None;
    }
    let of_program =
        &words[after..words.iter().position(|word| *word == "--").unwrap_or(words.len()).max(after)];
    let is_command = |word: &str| word.chars().all(|c| c.is_ascii_lowercase());
    let command: Vec<&str> = match of_program {
        ["torch", name, ..] if is_command(name) => vec!["torch", name],
        [name, ..] if is_command(name) && *name != "help" => vec![name],
        _ => return None,
    };
    let Some(help) = helps.of(&command) else { return Some(format!("there is no command {command:?}")) };
    let options = of_program.iter().filter(|word| word.starts_with("--"));
    let known = |option: &str| {
        help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).any(|word| word == option)
    };
    let unknown = options
        .map(|option| option.split(['=', '|', ',', '…', '.', '\'', ')']).next().unwrap())
        .find(|option| !known(option));
    unknown.map(|option| format!("{} has no {option}", command.join(" ")))
}

#[test]
fn commands_and_options_exist() {
    let mut helps = Helps::default();
    let mut found = Vec::new();
    let mut n_lines = 0;
    for page in pages() {
        for line in code(&fs::read_to_string(&page).unwrap()) {
            n_lines += usize::from(line.contains("memreel "));
            found.extend(wrong(&line, &mut helps).map(|why| format!("{}: `{line}`: {why}", name(&page))));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
    assert!(n_lines > 100, "only {n_lines} lines name the program");
}

/// Returns what git keeps.
fn kept() -> Vec<String> {
    let mut git = Command::new("git");
    let listed = git
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(repository(""))
        .output();
    let listed = listed.ok().filter(|listed| listed.status.success());
    listed
        .map(|listed| String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect())
        .unwrap_or_default()
}

#[test]
fn paths_exist() {
    let kept = kept();
    if kept.is_empty() {
        return;
    }
    let mut missing = Vec::new();
    let mut n_paths = 0;
    let of_house = ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"].map(repository);
    for page in pages().into_iter().chain(of_house) {
        for span in code(&fs::read_to_string(&page).unwrap()) {
            let is_path = |word: &&str| {
                let (folder, rest) = word.split_once('/').unwrap_or(("", ""));
                FOLDERS.contains(&folder) && !rest.contains(['*', '{', 'N', '<', '…', '='])
            };
            for path in span.split_whitespace().filter(is_path) {
                n_paths += 1;
                let path = path.trim_end_matches(['/', ',', '.', ';', ')', ':']);
                let is_there = kept.iter().any(|file| file == path || file.starts_with(&format!("{path}/")));
                if !is_there {
                    missing.push(format!("{}: {path}", name(&page)));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(n_paths > 20, "only {n_paths} paths");
}
