//! A parameter of a tool, generated from an argument of the program's command line.

#![forbid(unsafe_code)]

use std::{any::TypeId, ffi::OsString, path::PathBuf};

use clap::{Arg, ArgAction};
use serde_json::{Map, Value, json};

use crate::files::Roots;

/// The arguments that name files to be read. Other arguments with a path are not parameters, because they name files to
/// be written.
const FILES: [&str; 4] = ["files", "before", "after", "baseline"];

/// The arguments whose values are `SIZE=FILE`.
const SIZED_FILES: [&str; 1] = ["sized_files"];

/// Those that name files in an unchecked form, because another argument names them too.
const NOT_CHECKED: [&str; 1] = ["size"];

/// The flags with which a command writes a file that it reads otherwise, which are no parameters either.
const WRITES: [&str; 1] = ["update_baseline"];

/// The most values of a list.
const MAX_VALUES: usize = 1024;

/// The type of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    /// An option without a value.
    Flag,
    /// One of these words.
    Word(Vec<String>),
    Number,
    Text,
    /// A file that is read.
    File,
    /// A size, `=`, and a file that is read.
    SizedFile,
}

/// The number of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Count {
    One,
    /// This number of values after one option.
    Exactly(usize),
    /// A list, with the option before each.
    Many,
}

/// A parameter of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    /// The option before the value, `--device` or `-n`; none before a file or a moment.
    option: Option<String>,
    kind: Kind,
    count: Count,
    pub(crate) is_required: bool,
    default: Option<String>,
    help: String,
}

impl Parameter {
    /// Creates a parameter from an argument of a built command. Returns `None` for help, and for an argument that names
    /// a file to be written.
    pub(crate) fn new(arg: &Arg) -> Option<Parameter> {
        let id = arg.get_id().as_str();
        let kind = kind(arg, id)?;
        let option = match (arg.get_long(), arg.get_short()) {
            (Some(long), _) => Some(format!("--{long}")),
            (None, Some(short)) => Some(format!("-{short}")),
            (None, None) => None,
        };
        let most = arg.get_num_args().map_or(1, |range| range.max_values());
        let count = match arg.get_action() {
            _ if arg.is_positional() && most > 1 => Count::Many,
            _ if most > 1 => Count::Exactly(most),
            ArgAction::Append => Count::Many,
            _ => Count::One,
        };
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let help = match kind {
            // Standard input is the protocol's.
            Kind::File => help.split("; `-` is").next().unwrap_or_default().to_owned(),
            _ => help,
        };
        Some(Parameter {
            name: arg.get_long().unwrap_or(id).replace('-', "_"),
            option,
            kind,
            count,
            // Of a command whose first file may stand for a moment, both are optional.
            is_required: arg.is_required_set() || ["files", "sized_files"].contains(&id),
            default: arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned()),
            help,
        })
    }

    /// Whether this is `--json`, for which an answer has objects.
    pub(crate) fn is_json(&self) -> bool {
        self.option.as_deref() == Some("--json")
    }

    /// Returns whether values come after all options.
    pub(crate) fn is_positional(&self) -> bool {
        self.option.is_none()
    }

    /// Returns the JSON Schema of the values.
    pub(crate) fn schema(&self) -> Value {
        let mut one = Map::new();
        let name = match &self.kind {
            Kind::Flag => "boolean",
            Kind::Number => "integer",
            Kind::Word(_) | Kind::Text | Kind::File | Kind::SizedFile => "string",
        };
        one.insert("type".to_owned(), name.into());
        match &self.kind {
            Kind::Word(words) => drop(one.insert("enum".to_owned(), words.as_slice().into())),
            Kind::Number => drop(one.insert("minimum".to_owned(), 0.into())),
            _ => {}
        }
        let mut schema = match self.count {
            Count::One => one,
            Count::Exactly(n) => list(one, n, n),
            Count::Many => list(one, 1, MAX_VALUES),
        };
        schema.insert("description".to_owned(), self.help.as_str().into());
        if let Some(default) = &self.default
            && self.count == Count::One
        {
            let value = match self.kind {
                Kind::Number => default.parse::<u64>().map_or(Value::Null, Value::from),
                Kind::Flag => false.into(),
                _ => default.as_str().into(),
            };
            schema.insert("default".to_owned(), value);
        }
        Value::Object(schema)
    }

    /// Returns the words of a value on the command line. An option and its value are one word wherever that is possible,
    /// so that a value is never taken for an option.
    pub(crate) fn words(&self, value: &Value, roots: &Roots) -> Result<Vec<OsString>, String> {
        if self.kind == Kind::Flag {
            return match value {
                Value::Bool(true) => Ok(self.option.iter().map(OsString::from).collect()),
                Value::Bool(false) => Ok(Vec::new()),
                _ => Err(format!("{}: give true or false", self.name)),
            };
        }
        let values = match (self.count, value) {
            (Count::One, value) => vec![self.text(value, roots)?],
            // A list of one is what is meant.
            (Count::Many, Value::String(_) | Value::Number(_)) => vec![self.text(value, roots)?],
            (Count::Many, Value::Array(values)) if (1..=MAX_VALUES).contains(&values.len()) => {
                values.iter().map(|value| self.text(value, roots)).collect::<Result<_, _>>()?
            }
            (Count::Many, _) => {
                return Err(format!("{}: give a list of 1 to {MAX_VALUES} values", self.name));
            }
            (Count::Exactly(n), Value::Array(values)) if values.len() == n => {
                values.iter().map(|value| self.text(value, roots)).collect::<Result<_, _>>()?
            }
            (Count::Exactly(n), _) => return Err(format!("{}: give a list of {n} values", self.name)),
        };
        let Some(option) = &self.option else { return Ok(values) };
        if let Count::Exactly(_) = self.count {
            if values.iter().any(|value| value.as_encoded_bytes().starts_with(b"-")) {
                return Err(format!("{}: a value cannot start with -", self.name));
            }
            return Ok([vec![option.into()], values].concat());
        }
        let joined = |value: OsString| {
            let mut word = OsString::from(format!("{option}="));
            word.push(value);
            word
        };
        Ok(values.into_iter().map(joined).collect())
    }

    /// Returns one value in its command line form. Models often give a number as text, or the reverse.
    fn text(&self, value: &Value, roots: &Roots) -> Result<OsString, String> {
        match (&self.kind, value) {
            (Kind::File, Value::String(name)) => roots.file(name).map(OsString::from),
            (Kind::SizedFile, Value::String(text)) => {
                // A size may have an `=` of its own. What is found is a whole path, in which the program finds no other size.
                let found = text.match_indices('=').map(|(at, _)| {
                    let mut word = OsString::from(&text[..=at]);
                    word.push(roots.file(&text[at + 1..])?);
                    Ok(word)
                });
                let refused = Err(format!("{}: give SIZE=FILE", self.name));
                found.reduce(|before, next| before.or(next)).unwrap_or(refused)
            }
            (Kind::File | Kind::SizedFile, _) => Err(format!("{}: give the path of a file", self.name)),
            // A process cannot be given it.
            (_, Value::String(text)) if text.contains('\0') => {
                Err(format!("{}: a value cannot have a zero byte", self.name))
            }
            (_, Value::String(text)) => Ok(text.into()),
            (_, Value::Number(number)) => Ok(number.to_string().into()),
            _ => Err(format!("{}: give a text or a number", self.name)),
        }
    }
}

fn kind(arg: &Arg, id: &str) -> Option<Kind> {
    let parser = arg.get_value_parser();
    let words = arg.get_possible_values();
    let is_any_of = |types: &[TypeId]| types.iter().any(|one| parser.type_id() == *one);
    let numbers = [TypeId::of::<u16>(), TypeId::of::<u32>(), TypeId::of::<u64>(), TypeId::of::<usize>()];
    // A size may have a unit.
    let is_size = arg.get_value_names().is_some_and(|names| names.iter().any(|name| name.ends_with("BYTES")));
    match arg.get_action() {
        _ if NOT_CHECKED.contains(&id) => None,
        _ if SIZED_FILES.contains(&id) => Some(Kind::SizedFile),
        ArgAction::SetTrue => (!WRITES.contains(&id)).then_some(Kind::Flag),
        ArgAction::Set | ArgAction::Append if is_any_of(&[TypeId::of::<PathBuf>()]) => {
            FILES.contains(&id).then_some(Kind::File)
        }
        ArgAction::Set | ArgAction::Append if !words.is_empty() => {
            let shown = words.iter().filter(|word| !word.is_hide_set());
            Some(Kind::Word(shown.map(|word| word.get_name().to_owned()).collect()))
        }
        ArgAction::Set | ArgAction::Append if is_any_of(&numbers) && !is_size => Some(Kind::Number),
        ArgAction::Set | ArgAction::Append => Some(Kind::Text),
        _ => None,
    }
}

fn list(items: Map<String, Value>, least: usize, most: usize) -> Map<String, Value> {
    let list = json!({ "type": "array", "items": items, "minItems": least, "maxItems": most });
    list.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use clap::{Command, value_parser};

    use super::*;

    fn parameter(arg: Arg) -> Option<Parameter> {
        let mut command = Command::new("test").arg(arg.help("Help"));
        command.build();
        Parameter::new(command.get_arguments().find(|arg| arg.get_id() != "help").unwrap())
    }

    fn words(arg: Arg, value: Value) -> Result<Vec<String>, String> {
        let words = parameter(arg).unwrap().words(&value, &Roots::new(&[]).unwrap())?;
        Ok(words.into_iter().map(|word| word.into_string().unwrap()).collect())
    }

    #[test]
    fn an_option_and_its_value_are_one_word() {
        let device = Arg::new("device").long("device-name");
        assert_eq!(words(device.clone(), json!("--json")).unwrap(), ["--device-name=--json"]);
        assert_eq!(words(device.clone(), json!(7)).unwrap(), ["--device-name=7"]);
        assert!(words(device.clone(), json!([1])).is_err());
        assert!(words(device.clone(), json!("a\0b")).unwrap_err().contains("zero byte"));
        assert_eq!(parameter(device).unwrap().name, "device_name");
        let n = Arg::new("n").short('n').value_parser(value_parser!(usize));
        assert_eq!(words(n.clone(), json!("-3")).unwrap(), ["-n=-3"]);
        assert_eq!(parameter(n).unwrap().schema()["type"], "integer");
    }

    #[test]
    fn values_of_one_option_are_not_options() {
        let between = Arg::new("between").long("between").num_args(2);
        assert_eq!(words(between.clone(), json!(["a", "b#1"])).unwrap(), ["--between", "a", "b#1"]);
        assert!(words(between.clone(), json!(["a", "--json"])).unwrap_err().contains("cannot start with -"));
        assert!(words(between.clone(), json!(["a"])).unwrap_err().contains("2 values"));
        assert_eq!(parameter(between).unwrap().schema()["minItems"], 2);
    }

    #[test]
    fn lists_repeat_their_option() {
        let limit = Arg::new("limit").long("limit").action(ArgAction::Append);
        assert_eq!(words(limit.clone(), json!(["a", 2])).unwrap(), ["--limit=a", "--limit=2"]);
        assert_eq!(words(limit.clone(), json!("a")).unwrap(), ["--limit=a"]);
        assert_eq!(words(limit.clone(), json!(7)).unwrap(), ["--limit=7"]);
        for wrong in [json!([]), json!(vec!["a"; MAX_VALUES + 1]), json!(true)] {
            assert!(words(limit.clone(), wrong).is_err());
        }
    }

    #[test]
    fn flags_are_true_or_false() {
        let tree = Arg::new("tree").long("tree").action(ArgAction::SetTrue);
        assert_eq!(words(tree.clone(), json!(true)).unwrap(), ["--tree"]);
        assert!(words(tree.clone(), json!(false)).unwrap().is_empty());
        assert!(words(tree, json!("true")).is_err());
    }

    #[test]
    fn a_path_that_is_not_known_to_be_read_is_no_parameter() {
        let path = |id: &'static str| Arg::new(id).long(id).value_parser(value_parser!(PathBuf));
        assert!(parameter(path("svg")).is_none());
        let update = Arg::new("update_baseline").long("update-baseline").action(ArgAction::SetTrue);
        assert!(parameter(update).is_none());
        assert_eq!(words(path("baseline"), json!("/etc/passwd")).unwrap(), ["--baseline=/etc/passwd"]);
        assert!(words(path("baseline"), json!("/dev/zero")).is_err());
        assert!(words(path("baseline"), json!(3)).is_err());
    }

    #[test]
    fn sizes_are_texts_and_words_are_listed() {
        let size = Arg::new("limit").long("limit").value_name("BYTES").value_parser(value_parser!(u64));
        assert_eq!(parameter(size).unwrap().schema()["type"], "string");
        let by = Arg::new("by").long("by").value_parser(["stack", "file"]).default_value("stack");
        let schema = parameter(by).unwrap().schema();
        assert_eq!(schema["enum"], json!(["stack", "file"]));
        assert_eq!(schema["default"], "stack");
    }
}
