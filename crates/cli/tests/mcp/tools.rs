//! Which tools there are, and that their answers are the program's.

#![forbid(unsafe_code)]

use std::{collections::BTreeSet, process::Command};

use serde_json::{Value, json};

use crate::{repository, session::Session, snapshot};

/// The commands that are not tools: they write files, read folders, run programs, or are about the program itself.
const NOT_TOOLS: [&str; 19] = [
    "attach",
    "doctor",
    "flamegraph",
    "report",
    "torch",
    "completions",
    "convert",
    "fix",
    "help",
    "man",
    "mcp",
    "merge",
    "ranks",
    "record",
    "recover",
    "watch",
    "slim",
    "split",
    "view",
];

/// Returns what the program prints, and its exit status.
fn program(words: &[&str]) -> (String, Option<i32>) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_memreel")).args(words).env_remove("COLUMNS").output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

/// Returns the commands that the program lists.
fn commands() -> BTreeSet<String> {
    let (help, _) = program(&["--help"]);
    let lists =
        help.lines().take_while(|line| *line != "Options:").skip_while(|line| *line != "Getting started:");
    let first = |line: &str| {
        line.strip_prefix("  ").and_then(|line| line.split_whitespace().next().map(str::to_owned))
    };
    // The commands of `memreel torch` are known without this word too.
    let of_torch = ["stats", "trace", "segments", "memory", "compare"].map(str::to_owned);
    lists.filter_map(first).chain(of_torch).collect()
}

#[test]
fn every_command_is_a_tool_or_has_a_reason_not_to_be_one() {
    let all = commands();
    let tools: BTreeSet<String> = Session::begin(&[]).names().into_iter().collect();
    let others: BTreeSet<String> = NOT_TOOLS.map(str::to_owned).into();
    assert!(tools.len() > 15, "{tools:?}");
    assert!(
        tools.is_disjoint(&others),
        "a row of `groups` in crates/cli/src/commands/mod.rs is a `question`, and writes"
    );
    let listed: BTreeSet<String> = tools.union(&others).cloned().collect();
    assert_eq!(
        listed, all,
        "what `groups` in crates/cli/src/commands/mod.rs has as a `command` belongs into NOT_TOOLS"
    );
}

#[test]
fn no_tool_writes_and_every_schema_is_sound() {
    for tool in Session::begin(&[]).tools() {
        let name = &tool["name"];
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{name}");
        assert!(tool["description"].as_str().unwrap().len() > 20, "{name}");
        let schema = &tool["inputSchema"];
        let properties = schema["properties"].as_object().unwrap();
        for (property, described) in properties {
            assert!(
                !["svg", "output", "junit", "to", "torch"].contains(&property.as_str()),
                "{name}: {property}"
            );
            assert!(described["description"].as_str().unwrap().len() > 4, "{name}: {property}");
            assert!(!described.to_string().contains("standard input"), "{name}: {property}");
        }
        let check = jsonschema::validator_for(schema).unwrap_or_else(|error| panic!("{name}: {error}"));
        let at = if name == "fit" { json!(["3"]) } else { json!("peak") };
        let files =
            json!({"files": ["a"], "sized_files": ["1=a", "2=b"], "before": "a", "after": "b", "at": at});
        let mut taken = files.clone();
        taken.as_object_mut().unwrap().retain(|key, _| properties.contains_key(key));
        taken["skip_lines"] = 3.into();
        assert!(check.is_valid(&taken), "{name}: {taken}");
        assert!(!check.is_valid(&json!({})), "{name}");
        taken["no_such_parameter"] = 1.into();
        assert!(!check.is_valid(&taken), "{name}");
    }
}

#[test]
fn the_answer_of_each_tool_is_the_programs() {
    let (first, second) = (snapshot("oom.pickle"), snapshot("oom_fragment.pickle"));
    let sized = ["1", "2"].map(|size| format!("{size}={}", snapshot("transformer_all_stacks.pickle")));
    let mut session = Session::begin(&[]);
    for name in session.names() {
        let name = name.as_str();
        let (mut arguments, mut words) = (json!({"files": [first]}), vec![name]);
        match name {
            "at" => {
                arguments["at"] = "peak".into();
                words.push("peak");
            }
            "gate" => {
                arguments["max_peak"] = "1KiB".into();
                words.push("--max-peak=1KiB");
            }
            "diff" | "compare" => {
                arguments = json!({"before": first, "after": second});
                words.push(&first);
            }
            "fit" => {
                arguments = json!({"sized_files": sized, "at": "2"});
                words.extend(["--at=2", &sized[0]]);
            }
            _ => {}
        }
        words.push(match name {
            "fit" => &sized[1],
            "diff" | "compare" => &second,
            _ => &first,
        });
        let (text, status) = program(&words);
        let answer = session.call(name, &arguments);
        assert_eq!((answer.texts[0].as_str(), answer.is_error), (text.as_str(), false), "{name}");
        assert_eq!(answer.structured, Value::Null, "{name}");
        let notes = answer.texts[1..].join("\n");
        match status {
            Some(0) => assert_eq!(notes, "", "{name}"),
            Some(code) => assert!(notes.starts_with(&format!("status {code}: ")), "{name}: {notes}"),
            None => panic!("{name}"),
        }

        arguments["json"] = true.into();
        words.insert(1, "--json");
        let (lines, status) = program(&words);
        let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let answer = session.call(name, &arguments);
        assert!(!objects.is_empty(), "{name}");
        assert_eq!(answer.structured, json!({"status": status, "objects": objects}), "{name}");
        assert_eq!(answer.texts[0], lines, "{name}");
    }
}

#[test]
fn options_reach_the_program() {
    let file = snapshot("transformer_all_stacks.pickle");
    let mut session = Session::begin(&[]);
    let (text, _) = program(&["top", "--by", "function", "-n", "3", "--at", "end", "--device", "0", &file]);
    let arguments = json!({"files": file, "by": "function", "n": 3, "at": "end", "device": 0});
    assert_eq!(session.call("top", &arguments).texts[0], text);
    let (text, _) = program(&["top", "--tree", &file]);
    assert_eq!(session.call("top", &json!({"files": [file], "tree": true})).texts[0], text);
    // Of several files the answers follow each other, and a gate that fails is an answer.
    let other = snapshot("oom.pickle");
    let arguments =
        json!({"files": [file, other], "max_owner": ["nccl=1GiB"], "baseline": other, "tolerance": "5%"});
    let words = ["gate", "--max-owner=nccl=1GiB", "--baseline", &other, "--tolerance=5%", &file, &other];
    let (text, status) = program(&words);
    let answer = session.call("gate", &arguments);
    assert_eq!((answer.texts[0].as_str(), answer.is_error), (text.as_str(), false));
    assert_eq!(status == Some(4), answer.texts.iter().any(|text| text.contains("status 4")));
}

#[test]
fn the_example_runs() {
    let mut example = Command::new("python3");
    example.arg(repository("examples/mcp_session.py")).arg(env!("CARGO_BIN_EXE_memreel"));
    let Ok(output) = example.output() else {
        eprintln!("skipped: no python3");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for part in [
        "  top            files, device, json, at, by, tree, allocated, new, since, n, frames, paths, skip_lines\n",
        "peak: 960.00 MiB in use in 15 blocks after event 29 of 31, 960.00 MiB reserved\n",
        "added     +1.84 GiB    +93  <module> (models.py:52)\n",
        "as data: 1006632960 bytes in use\n",
        "the opcode GLOBAL would run code",
        "the server ended with status 0\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("\nowned"), "{text}");
}
