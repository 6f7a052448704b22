//! The page about the lines of `--json`, made from their schema.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use serde_json::{Map, Value};

const HEAD: &str = "\
# What `--json` prints

Every command that reads snapshots prints one object a line with `--json`, in the order of the files and their
devices. `schema/json.schema.json` in the repository is the machine-readable schema, of which this page is made. Keys that are
not marked as optional are in every line. A release may add keys.
";

/// Returns the definition of each command's line.
///
/// # Panics
///
/// In a schema without them.
#[must_use]
pub fn commands(schema: &Value) -> &Map<String, Value> {
    schema["$defs"]["commands"]["$defs"].as_object().expect("the schema has definitions of commands")
}

/// Returns the definition that a schema refers to, or the schema itself.
#[must_use]
pub fn resolved<'a>(schema: &'a Value, part: &'a Value) -> &'a Value {
    let name = part["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
    name.map_or(part, |name| &schema["$defs"][name])
}

/// Returns the page of a schema.
///
/// # Errors
///
/// A definition or a key without a description, or a type that is defined nowhere.
pub fn page(schema: &Value) -> Result<String, String> {
    let mut page = HEAD.to_owned();
    let mut forms = BTreeSet::new();
    for (name, line) in commands(schema) {
        page += &section("##", name, schema, line)?;
        forms.extend(elements(&line["oneOf"]).filter_map(|form| form["$ref"].as_str()));
    }
    page += "\n## Values in these lines\n";
    for (name, part) in schema["$defs"].as_object().into_iter().flatten() {
        if name != "commands" && !forms.contains(&*format!("#/$defs/{name}")) {
            page += &section("###", name, schema, part)?;
        }
    }
    let mut links = page.split("](#").skip(1).filter_map(|rest| rest.split(')').next());
    match links.find(|name| !page.contains(&format!("\n### {name}\n"))) {
        Some(name) => Err(format!("{name} is defined nowhere")),
        None => Ok(page),
    }
}

fn elements(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Returns a heading, and what a definition is.
fn section(level: &str, name: &str, schema: &Value, part: &Value) -> Result<String, String> {
    let text = described(name, schema, part)?;
    Ok(format!("\n{level} {name}\n\n{}\n", text.trim_end()))
}

/// Returns what a value is, with a table of an object's keys.
fn described(name: &str, schema: &Value, part: &Value) -> Result<String, String> {
    let mut text = format!("{}\n\n", meaning(name, part)?);
    for form in elements(&part["oneOf"]) {
        text += &described(name, schema, resolved(schema, form))?;
    }
    let Some(properties) = part["properties"].as_object() else { return Ok(text) };
    text += "| key | type | meaning |\n| --- | --- | --- |\n";
    for (key, value) in properties {
        let is_required = elements(&part["required"]).any(|name| name == key.as_str());
        let optional = if is_required { "" } else { " (optional)" };
        let meaning = meaning(&format!("{name}.{key}"), value)?;
        text += &format!("| `{key}`{optional} | {} | {meaning} |\n", type_name(value));
    }
    text.push('\n');
    Ok(text)
}

fn meaning<'a>(name: &str, part: &'a Value) -> Result<&'a str, String> {
    part["description"].as_str().ok_or_else(|| format!("json.schema.json: {name} has no description"))
}

/// Returns the type of a value, as the page shows it.
fn type_name(part: &Value) -> String {
    if let Some(path) = part["$ref"].as_str() {
        let name = path.rsplit('/').next().unwrap_or(path);
        return format!("[{}](#{name})", name.replace('_', " "));
    }
    if part["anyOf"].is_array() {
        return elements(&part["anyOf"]).map(type_name).collect::<Vec<_>>().join(" or ");
    }
    if part["enum"].is_array() {
        return elements(&part["enum"]).map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    }
    let name = |kind: &Value| match kind.as_str().unwrap_or_default() {
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
