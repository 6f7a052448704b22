//! `schema/json.md`, the page about the lines of `--json`, is made from their schema.

#![forbid(unsafe_code)]

use std::{collections::BTreeSet, fmt::Write, fs};

use serde_json::Value;

use crate::{
    json_lines::{commands, resolved, schema},
    repository,
};

/// Returns the type of a value, as the page shows it.
fn type_name(part: &Value) -> String {
    if let Some(path) = part["$ref"].as_str() {
        let name = path.rsplit('/').next().unwrap();
        return format!("[{}](#{name})", name.replace('_', " "));
    }
    if let Some(forms) = part["anyOf"].as_array() {
        return forms.iter().map(type_name).collect::<Vec<_>>().join(" or ");
    }
    if let Some(words) = part["enum"].as_array() {
        return words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    }
    let name = |kind: &Value| match kind.as_str().unwrap() {
        "array" if part["minItems"].is_u64() => {
            format!("{} × {}", part["minItems"], type_name(&part["items"]))
        }
        "array" => format!("list of {}", type_name(&part["items"])),
        "boolean" => "bool".to_owned(),
        "string" => "text".to_owned(),
        kind => kind.to_owned(),
    };
    match &part["type"] {
        Value::Array(kinds) => kinds.iter().map(name).collect::<Vec<_>>().join(" or "),
        Value::Null => "any value".to_owned(),
        kind => name(kind),
    }
}

/// Adds a table of an object's keys, or what the value is.
fn add_part(schema: &Value, part: &Value, page: &mut String) {
    writeln!(page, "{}\n", part["description"].as_str().unwrap()).unwrap();
    for form in part["oneOf"].as_array().into_iter().flatten() {
        add_part(schema, resolved(schema, form), page);
    }
    let Some(properties) = part["properties"].as_object() else { return };
    page.push_str("| key | type | meaning |\n| --- | --- | --- |\n");
    for (key, value) in properties {
        let is_required = part["required"].as_array().into_iter().flatten().any(|name| name == key.as_str());
        let optional = if is_required { "" } else { " (optional)" };
        let meaning = value["description"].as_str().unwrap();
        writeln!(page, "| `{key}`{optional} | {} | {meaning} |", type_name(value)).unwrap();
    }
    page.push('\n');
}

fn page(schema: &Value) -> String {
    let mut page = String::from(
        "# What `--json` prints\n\n\
         <!-- Made from json.schema.json: MEMREEL_BLESS=1 cargo test -p memreel-cli json_page -->\n\n\
         Every command that reads snapshots prints one object a line with `--json`, in the order of the files and \
         their\ndevices. `json.schema.json` beside this page is the machine-readable schema, with a definition for \
         each command.\nKeys that are not marked as optional are in every line. A release may add keys.\n",
    );
    let mut forms = BTreeSet::new();
    for (name, line) in commands(schema) {
        writeln!(page, "\n## {name}\n").unwrap();
        add_part(schema, line, &mut page);
        forms.extend(
            line["oneOf"].as_array().into_iter().flatten().map(|form| form["$ref"].as_str().unwrap()),
        );
        page.truncate(page.trim_end().len());
        page.push('\n');
    }
    page.push_str("\n## Values in these lines\n");
    for (name, part) in schema["$defs"].as_object().unwrap() {
        if name != "commands" && !forms.contains(&*format!("#/$defs/{name}")) {
            writeln!(page, "\n### {name}\n").unwrap();
            add_part(schema, part, &mut page);
            page.truncate(page.trim_end().len());
            page.push('\n');
        }
    }
    page
}

#[test]
fn the_page_is_made_from_the_schema() {
    let (path, page) = (repository("schema/json.md"), page(&schema()));
    if std::env::var_os("MEMREEL_BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    assert_eq!(fs::read_to_string(path).unwrap_or_default(), page, "MEMREEL_BLESS=1 makes the page anew");
}
