//! `schema/snapshot.schema.json` takes what is right and refuses what is wrong.

use std::{fmt::Write, fs};

use jsonschema::Validator;
use memreel_snapshot::{
    pickle,
    validate::{Rule, Severity, validate},
};
use memreel_testing::repository;
use serde_json::{Value, json};

use crate::fixtures::snapshots;

fn schema() -> Validator {
    let text = fs::read_to_string(repository("schema/snapshot.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    jsonschema::meta::validate(&schema).unwrap();
    jsonschema::draft202012::new(&schema).unwrap()
}

#[test]
fn every_fixture_without_error_fits() {
    let schema = schema();
    let mut n_fit = 0;
    for (name, snapshot) in snapshots() {
        let has_error = validate(&snapshot).iter().any(|finding| finding.severity == Severity::Error);
        if !has_error {
            let json = serde_json::to_value(&snapshot).unwrap();
            let errors: Vec<_> =
                schema.iter_errors(&json).map(|e| format!("{}: {e}", e.instance_path())).collect();
            assert!(errors.is_empty(), "{name}: {}", errors.join("\n"));
            n_fit += 1;
        }
    }
    assert!(n_fit >= 20, "only {n_fit} fixtures were without error");
}

/// A place, and what stands there instead; `None` takes the key away.
type Row = (&'static str, Option<Value>);

fn broken() -> Vec<Row> {
    vec![
        ("/segments", None),
        ("/device_traces", None),
        ("/device_traces", Some(json!([]))),
        ("/device_traces/1", Some(json!({}))),
        ("/segments/0/device", Some(json!(-1))),
        ("/segments/0/device", None),
        ("/segments/0/address", Some(json!(-4096))),
        ("/segments/0/total_size", Some(json!(1u64 << 54))),
        ("/segments/0/allocated_size", None),
        ("/segments/0/stream", Some(json!(null))),
        ("/segments/0/segment_type", Some(json!("huge"))),
        ("/segments/0/segment_pool_id", Some(json!([0]))),
        ("/segments/0/is_expandable", Some(json!(0))),
        ("/segments/0/blocks", None),
        ("/segments/0/blocks/0/size", Some(json!(0))),
        ("/segments/0/blocks/0/state", Some(json!("active_awaiting_free"))),
        ("/segments/0/blocks/0/requested_size", None),
        ("/segments/0/blocks/0/frames", Some(json!(null))),
        ("/segments/0/frames/0/line", Some(json!(-1))),
        ("/segments/0/frames/0/name", None),
        ("/device_traces/0/1/action", None),
        ("/device_traces/0/1/addr", None),
        ("/device_traces/0/1/addr", Some(json!(1.5))),
        ("/device_traces/0/1/size", Some(json!(true))),
        ("/device_traces/0/1/action", Some(json!("oom"))),
        ("/device_traces/0/1/compile_context", Some(json!(null))),
        ("/device_traces/0/1/frames", Some(json!([3]))),
        ("/allocator_settings/max_split_size", Some(json!(u64::MAX))),
        ("/external_annotations/0/stage", Some(json!("BEGIN"))),
    ]
}

#[test]
fn what_is_broken_does_not_fit() {
    let schema = schema();
    let valid = pickle::load(repository("fixtures/synthetic/valid.pickle")).unwrap();
    let valid = serde_json::to_value(&valid).unwrap();
    assert!(schema.is_valid(&valid));
    for (place, value) in broken() {
        let mut json = valid.clone();
        let (parent, key) = place.rsplit_once('/').unwrap();
        match &value {
            Some(value) => *json.pointer_mut(place).expect(place) = value.clone(),
            None => {
                drop(json.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key).expect(place))
            }
        }
        assert!(!schema.is_valid(&json), "{place}: {value:?} fits");
    }
}

#[test]
fn a_key_that_vanishes_does_not_fit() {
    let mut json = json!({"segments": [], "device_traces": [[]]});
    assert!(schema().is_valid(&json));
    json["__proto__"] = json!(1);
    assert!(!schema().is_valid(&json));
}

/// The headings of the page, by the rule that each stands before.
const HEADINGS: [(u8, &str); 4] =
    [(1, "The container"), (8, "Segments and blocks"), (17, "Entries, for each device"), (34, "The rest")];

const RULES_BEGIN: &str =
    "<!-- Made from `enum Rule`: MEMREEL_BLESS=1 cargo test -p memreel-snapshot --test it schema -->\n";
const RULES_END: &str = "\n<!-- End of the rules -->";

/// The page's list of rules, as the code documents them.
fn list_of_rules() -> String {
    let mut list = String::new();
    for rule in Rule::ALL {
        if let Some((_, heading)) = HEADINGS.iter().find(|(first, _)| *first == rule.number()) {
            writeln!(list, "\n{heading}\n").unwrap();
        }
        writeln!(list, "{}. {}", rule.number(), rule.text()).unwrap();
    }
    list
}

#[test]
fn the_page_lists_the_rules_as_the_code_documents_them() {
    let path = repository("schema/snapshot.md");
    let page = fs::read_to_string(&path).unwrap();
    let from = page.find(RULES_BEGIN).unwrap() + RULES_BEGIN.len();
    let to = page.find(RULES_END).unwrap();
    let list = list_of_rules();
    if std::env::var_os("MEMREEL_BLESS").is_some() {
        fs::write(path, [&page[..from], &list, &page[to..]].concat()).unwrap();
    } else {
        assert_eq!(page[from..to], list, "make the page anew with MEMREEL_BLESS=1");
    }
}

#[test]
fn every_rule_documents_its_cases() {
    let numbers: Vec<u8> = Rule::ALL.iter().map(|rule| rule.number()).collect();
    assert_eq!(numbers, (1..=36).collect::<Vec<_>>());
    for page in ["docs/ask.md", "crates/snapshot/README.md"] {
        let page = fs::read_to_string(repository(page)).unwrap();
        assert!(page.contains(&format!("{} rules", numbers.len())), "the page has the number of rules");
    }
    for rule in Rule::ALL {
        for severity in [Severity::Error, Severity::Warning, Severity::Pytorch] {
            let case = format!("`{}{}`: ", severity.letter(), rule.number());
            assert_eq!(
                rule.text().contains(&case),
                rule.severities().contains(&severity),
                "{rule:?}: {case}"
            );
        }
    }
}

#[test]
fn the_page_names_every_key() {
    let page = fs::read_to_string(repository("schema/snapshot.md")).unwrap();
    let schema = fs::read_to_string(repository("schema/snapshot.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    for (kind, definition) in schema["$defs"].as_object().unwrap() {
        for key in definition["properties"].as_object().into_iter().flatten().map(|(key, _)| key) {
            assert!(page.contains(&format!("`{key}`")), "{kind}: the page does not name {key}");
        }
    }
}
