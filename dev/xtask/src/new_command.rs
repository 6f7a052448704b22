//! `cargo xtask new command NAME`: a command that answers something, with its rows in every list that names the commands.
#![forbid(unsafe_code)]

use std::{error::Error, fs, path::Path};

use crate::checkout::Checkout;

/// The name of the new command, and what `memreel --help` says of it.
#[derive(clap::Args)]
pub(crate) struct Command {
    /// The word of the command line
    #[arg(value_parser = word)]
    name: String,
    /// What it answers, in one line of the help
    #[arg(long, default_value = "Count the events of a snapshot")]
    about: String,
}

fn word(text: &str) -> Result<String, String> {
    let is_word = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if is_word { Ok(text.to_owned()) } else { Err("a command is one word of lower-case letters".to_owned()) }
}

/// A row that goes before a line of a list, which begins with `before`.
struct Insertion {
    path: &'static str,
    before: &'static str,
    row: String,
}

fn insertions(command: &Command) -> Vec<Insertion> {
    let Command { name, about } = command;
    let at = |path, before, row: String| Insertion { path, before, row };
    vec![
        at("crates/cli/src/commands/mod.rs", "mod churn;", format!("mod {name};")),
        at(
            "crates/cli/src/commands/mod.rs",
            "                question(\"timeline\"",
            format!("                question(\"{name}\", {about:?}, {name}::run),"),
        ),
        at(
            "crates/cli/tests/program/questions/answers.rs",
            "    &[\"churn\"],",
            format!("    &[\"{name}\"],"),
        ),
        at("crates/cli/tests/program/width.rs", "    &[\"churn\"],", format!("    &[\"{name}\"],")),
        at(
            "crates/cli/tests/program/questions/golden.rs",
            "    (\"churn\",",
            format!("    (\"{name}\", &[\"{name}\", \"torch-2.11/snapshots/oom_fragment.pickle\"]),"),
        ),
        at(
            "dev/xtask/src/pages/commands.rs",
            "    (\"churn\",",
            format!("    (\"{name}\", &[\"{name}\", RANK0]),"),
        ),
        at("schema/json.schema.json", "        \"churn\": {", definition(name)),
        at("docs/mcp.md", "| `diff`, `compare` |", format!("| `{name}` | {} |", lower(about))),
    ]
}

/// The line of the stub's `--json` in the schema.
fn definition(name: &str) -> String {
    format!(
        r##"        "{name}": {{
          "description": "The events of a device.",
          "type": "object",
          "additionalProperties": false,
          "required": ["file", "device", "events", "warnings"],
          "properties": {{
            "file": {{"type": "string", "description": "The file, as it was given."}},
            "device": {{"$ref": "#/$defs/device", "description": "The device."}},
            "events": {{"$ref": "#/$defs/count", "description": "Events of the history."}},
            "warnings": {{"type": "array", "items": {{"type": "string", "title": "text"}}, "description": "What limits the figures, one sentence each; empty if nothing does."}}
          }}
        }},"##
    )
}

/// The file of the command: it compiles, and counts events.
fn stub(command: &Command) -> String {
    let Command { name, about } = command;
    format!(
        r#"//! `memreel {name}`: {}.

#![forbid(unsafe_code)]

use std::io::Write;

use serde_json::json;

use crate::{{
    exit::Exit,
    failure::Failure,
    input::{{Opener, each_device}},
    options::Input,
    text::{{Page, count, print_warnings}},
}};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  memreel {name} snapshot.pickle

Exit status: 0 success; 2 usage error; 3 a file cannot be read or is not a
snapshot.")]
pub(crate) struct Options {{
    #[command(flatten)]
    input: Input,
}}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {{
    each_device(&options.input, opener, out, |asked, out| {{
        let n_events = asked.history().entries().len();
        if options.input.json {{
            asked.print_json(&json!({{"events": n_events}}), out)?;
            return Ok(Exit::Fine);
        }}
        writeln!(out, "{{}}", count(n_events, "event"))?;
        print_warnings(asked.history(), out)?;
        Ok(Exit::Fine)
    }})
}}
"#,
        lower(about)
    )
}

fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

const LEFT: &str = "\
What is left, by hand:
1. crates/answers/src/NAME.rs: the question and its answer, whose fields are the keys of --json;
   crates/cli/src/commands/NAME.rs, which now counts events: its options, its help and the text
2. schema/json.schema.json: the keys of its line; RUNS of crates/cli/tests/program/json_lines.rs must print each of them
3. the text in fixtures/expected/NAME.txt, after a look at it:
   MEMREEL_BLESS=1 cargo test -p memreel-cli --test program -- golden
4. CHANGELOG.md, and the page of docs/ that it belongs to
5. a method in python/memreel/snapshot.py, if Python has it (CONTRIBUTING.md, \"A command\")
Then: cargo test -p memreel-cli --test program -- every_command:: json_lines width questions::";

/// Writes the file and the rows, and prints what is left.
///
/// # Errors
/// A file of that name, or a list that no longer has the row beside which the new one goes.
pub(crate) fn make(command: &Command) -> Result<(), Box<dyn Error>> {
    let checkout = Checkout::open()?;
    let root = checkout.shell.current_dir();
    let file = format!("crates/cli/src/commands/{}.rs", command.name);
    if root.join(&file).exists() || root.join(&file).with_extension("").exists() {
        return Err(format!("{} is a command already", command.name).into());
    }
    write(&root, command)?;
    fs::write(root.join(&file), stub(command))?;
    xshell::cmd!(checkout.shell, "cargo fmt -p memreel-cli").quiet().run()?;
    println!("{}", LEFT.replace("NAME", &command.name));
    Ok(())
}

/// Inserts the rows, once all of their places are found.
fn write(root: &Path, command: &Command) -> Result<(), Box<dyn Error>> {
    let mut texts: Vec<(&str, String)> = Vec::new();
    for Insertion { path, before, row } in insertions(command) {
        if texts.iter().all(|(known, _)| *known != path) {
            texts.push((
                path,
                fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))?,
            ));
        }
        let text =
            texts.iter_mut().find(|(known, _)| *known == path).map(|(_, text)| text).expect("just read");
        *text = with_row(text, before, &row)
            .ok_or_else(|| format!("{path} has no line that begins with `{before}`"))?;
    }
    for (path, text) in texts {
        fs::write(root.join(path), text)?;
    }
    Ok(())
}

fn with_row(text: &str, before: &str, row: &str) -> Option<String> {
    let place = text.find(&format!("\n{before}"))?;
    Some(format!("{}\n{row}{}", &text[..place], &text[place..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each list still has the row beside which a new one goes.
    #[test]
    fn a_new_command_has_a_row_in_every_list() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let copy = tempfile::tempdir().unwrap();
        let command = Command { name: "newest".to_owned(), about: "Show the newest block".to_owned() };
        for Insertion { path, .. } in insertions(&command) {
            fs::create_dir_all(copy.path().join(path).parent().unwrap()).unwrap();
            fs::copy(root.join(path), copy.path().join(path)).unwrap();
        }
        write(copy.path(), &command).unwrap();
        for Insertion { path, row, .. } in insertions(&command) {
            let (old, new) =
                [root, copy.path()].map(|root| fs::read_to_string(root.join(path)).unwrap()).into();
            assert!(new.contains(&row) && new.len() > old.len(), "{path}");
        }
        assert!(word("Newest").is_err() && word("a-b").is_err() && word("at2").is_ok());
    }
}
