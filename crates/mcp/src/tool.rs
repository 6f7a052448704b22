//! A tool, generated from a command of the program.

#![forbid(unsafe_code)]

use std::{ffi::OsString, sync::Arc};

use clap::Command;
use rmcp::model::{JsonObject, Tool as Described, ToolAnnotations};
use serde_json::{Value, json};

use crate::{files::Roots, parameter::Parameter};

/// The parameter of every tool that is the server's own.
const SKIP_LINES: &str = "skip_lines";

/// The parameters that make an answer shorter.
const NARROWER: [&str; 5] = ["n", "frames", "severity", "width", "device"];

/// A tool.
#[derive(Clone, Debug)]
pub(crate) struct Tool {
    pub(crate) name: String,
    description: String,
    parameters: Vec<Parameter>,
}

/// A question: the words of a command line, and which part of the answer is requested.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Question {
    pub(crate) words: Vec<OsString>,
    pub(crate) is_json: bool,
    pub(crate) n_skipped: u64,
    /// The tool's parameters that make an answer shorter.
    pub(crate) narrower: Vec<String>,
}

/// Returns the tools of a program: its commands of these names.
pub(crate) fn tools(mut program: Command, names: &[&str]) -> Vec<Tool> {
    program.build();
    names.iter().filter_map(|name| program.find_subcommand(name)).map(Tool::new).collect()
}

impl Tool {
    fn new(command: &Command) -> Tool {
        let text = |styled: Option<&clap::builder::StyledStr>| styled.map(ToString::to_string);
        let about = text(command.get_about()).unwrap_or_default();
        let more = text(command.get_after_help()).unwrap_or_default();
        // Examples and exit statuses are about the command line.
        let is_prose = |part: &&str| !part.starts_with("Examples:") && !part.starts_with("Exit status:");
        let parts = [about.as_str()].into_iter().chain(more.split("\n\n")).filter(|part| !part.is_empty());
        Tool {
            name: command.get_name().to_owned(),
            description: parts.filter(is_prose).collect::<Vec<_>>().join("\n\n"),
            parameters: command.get_arguments().filter_map(Parameter::new).collect(),
        }
    }

    /// Returns the names of the parameters.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &str> {
        self.parameters.iter().map(|parameter| parameter.name.as_str()).chain([SKIP_LINES])
    }

    /// Returns the tool as the protocol describes it.
    pub(crate) fn described(&self) -> Described {
        let mut properties: JsonObject =
            self.parameters.iter().map(|parameter| (parameter.name.clone(), parameter.schema())).collect();
        let help = "Skip this many lines of the answer, to continue after a part";
        properties.insert(
            SKIP_LINES.to_owned(),
            json!({ "type": "integer", "minimum": 0, "default": 0, "description": help }),
        );
        let required: Vec<&str> = self
            .parameters
            .iter()
            .filter(|parameter| parameter.is_required)
            .map(|parameter| parameter.name.as_str())
            .collect();
        let schema = json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        let schema = schema.as_object().cloned().unwrap_or_default();
        let annotations =
            ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(false);
        Described::new(self.name.clone(), self.description.clone(), Arc::new(schema))
            .with_annotations(annotations)
    }

    /// Returns the question that the arguments of a call ask.
    ///
    /// # Errors
    /// An argument is unknown, missing or wrong, or a file may not be read.
    pub(crate) fn question(&self, arguments: &JsonObject, roots: &Roots) -> Result<Question, String> {
        if let Some(unknown) = arguments.keys().find(|name| self.parameters().all(|known| known != *name)) {
            let known: Vec<&str> = self.parameters().collect();
            return Err(format!("{} has no parameter {unknown:?}; it has {}", self.name, known.join(", ")));
        }
        // Clients write null for what is not given.
        let given = |parameter: &Parameter| arguments.get(&parameter.name).filter(|value| !value.is_null());
        let mut question = Question {
            words: vec![OsString::from(&self.name)],
            is_json: false,
            n_skipped: match arguments.get(SKIP_LINES) {
                None | Some(Value::Null) => 0,
                Some(value) => value.as_u64().ok_or(format!("{SKIP_LINES}: give a number of lines"))?,
            },
            narrower: NARROWER
                .iter()
                .filter(|name| self.parameters().any(|known| known == **name))
                .map(ToString::to_string)
                .collect(),
        };
        let mut files = vec![OsString::from("--")];
        for parameter in &self.parameters {
            let Some(value) = given(parameter) else {
                if parameter.is_required {
                    return Err(format!("{} needs the parameter {:?}", self.name, parameter.name));
                }
                continue;
            };
            let words = parameter.words(value, roots)?;
            question.is_json |= parameter.is_json() && !words.is_empty();
            if parameter.is_positional() { &mut files } else { &mut question.words }.extend(words);
        }
        question.words.append(&mut files);
        Ok(question)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clap::{Arg, ArgAction, value_parser};

    use super::*;

    fn program() -> Command {
        let file = |id: &'static str| Arg::new(id).required(true).value_parser(value_parser!(PathBuf));
        let at = Command::new("at")
            .about("Show a moment")
            .after_help("More.\n\nExamples:\n  memreel at peak x\n\nExit status: 0 success.")
            .arg(Arg::new("when").required(true))
            .arg(file("files").num_args(1..))
            .arg(Arg::new("json").long("json").action(ArgAction::SetTrue))
            .arg(Arg::new("older-than").long("older-than").value_parser(value_parser!(usize)))
            .arg(Arg::new("svg").long("svg").value_parser(value_parser!(PathBuf)));
        Command::new("memreel").subcommand(at).subcommand(Command::new("fix").arg(file("files")))
    }

    fn at() -> Tool {
        let mut tools = tools(program(), &["at"]);
        assert_eq!(tools.len(), 1);
        tools.remove(0)
    }

    fn ask(arguments: Value) -> Result<Question, String> {
        at().question(arguments.as_object().unwrap(), &Roots::new(&[]).unwrap())
    }

    #[test]
    fn a_tool_has_the_words_and_options_of_its_command() {
        let described = at().described();
        assert_eq!(described.description.as_deref(), Some("Show a moment\n\nMore."));
        let schema = described.schema_as_json_value();
        let properties: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(properties, ["when", "files", "json", "older_than", "skip_lines"]);
        assert_eq!(schema["required"], json!(["when", "files"]));
    }

    #[test]
    fn a_question_is_the_words_of_a_command_line() {
        let words = |question: Question| -> Vec<String> {
            question.words.into_iter().map(|word| word.into_string().unwrap()).collect()
        };
        let all = json!({"files": ["/etc/passwd"], "when": "--json", "older_than": 3, "json": false});
        let question = ask(all).unwrap();
        assert!(!question.is_json);
        assert_eq!(words(question), ["at", "--older-than=3", "--", "--json", "/etc/passwd"]);
        let question =
            ask(json!({"when": 7, "files": ["/etc/passwd"], "json": true, "skip_lines": 5})).unwrap();
        assert!(question.is_json && question.n_skipped == 5);
        assert_eq!(words(question), ["at", "--json", "--", "7", "/etc/passwd"]);
    }

    #[test]
    fn wrong_arguments_are_refused_with_advice() {
        let file = "/etc/passwd";
        let rows = [
            (json!({"when": 1}), "needs the parameter \"files\""),
            (json!({"when": null, "files": [file]}), "needs the parameter \"when\""),
            (
                json!({"when": 1, "files": [file], "svg": "x"}),
                "no parameter \"svg\"; it has when, files, json",
            ),
            (json!({"when": 1, "files": [file], "skip_lines": -1}), "skip_lines: give a number"),
            (json!({"when": 1, "files": {}}), "files: give a list"),
        ];
        for (arguments, why) in rows {
            let message = ask(arguments).unwrap_err();
            assert!(message.contains(why), "{message}");
        }
    }
}
