//! The names of blocks in the answers of `top`, `at` and `trace`.

#![forbid(unsafe_code)]

use memreel::{
    Reel,
    recorder::{Recording, StackKind},
};
use serde_json::{Value, json};

use crate::support::answer;

/// A file with five named blocks of one size, and one without a name.
fn file() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("named.pickle");
    let reel = Reel::builder().history(Recording::all().stacks(StackKind::None)).build().unwrap();
    let blocks: Vec<_> = (0..5).map(|_| reel.alloc(4 << 20).unwrap()).collect();
    let _other = reel.alloc(1 << 20).unwrap();
    for (layer, block) in blocks.iter().enumerate() {
        block.annotate(&format!("layer {layer}\u{7}"));
    }
    reel.save(&path).unwrap();
    (folder, path.to_str().unwrap().to_owned())
}

fn object(arguments: &[&str]) -> Value {
    serde_json::from_str(&answer(arguments)).unwrap()
}

#[test]
fn top_shows_the_names_of_blocks() {
    let (_folder, path) = file();
    let text = answer(&["top", &path]);
    assert!(
        text.contains("named layer 0\u{fffd}, layer 1\u{fffd}, layer 2\u{fffd} and 2 more names\n"),
        "{text}"
    );
    let groups = object(&["top", "--json", &path])["groups"].clone();
    assert_eq!(groups[0]["names"].as_array().unwrap().len(), 5);
    assert_eq!(groups[1]["names"], Value::Null);

    let text = answer(&["top", "--by", "name", &path]);
    assert!(text.contains("name\n") && text.contains(" 4.00 MiB      1  layer 3\u{fffd}\n"), "{text}");
    assert!(text.contains("(no name)") && !text.contains("named"), "{text}");
    let groups = object(&["top", "--by", "name", "--json", &path])["groups"].clone();
    assert_eq!((&groups[0]["name"], &groups[5]["name"]), (&json!("layer 0\u{7}"), &Value::Null));
}

#[test]
fn at_and_trace_show_the_names_of_blocks() {
    let (_folder, path) = file();
    let text = answer(&["at", "end", &path]);
    assert!(text.contains("last event: annotate of 4.00 MiB: layer 4\u{fffd}\n"), "{text}");
    assert!(text.contains("named layer 0"), "{text}");
    let segments = object(&["at", "end", "--json", &path])["segments"].clone();
    let blocks =
        segments.as_array().unwrap().iter().flat_map(|segment| segment["blocks"].as_array().unwrap());
    let names: Vec<&Value> = blocks.map(|block| &block["names"]).collect();
    assert_eq!(names.iter().filter(|names| **names == &json!([])).count(), 1, "{names:?}");
    assert!(names.contains(&&json!(["layer 4\u{7}"])), "{names:?}");

    let text = answer(&["trace", &path]);
    assert!(text.lines().any(|line| line == "# annotate b: layer 0\u{fffd}"), "{text}");
    let lines = answer(&["trace", "--json", &path]);
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&last["action"], &last["annotation"]), (&json!("annotate"), &json!("layer 4\u{7}")));
    // PyTorch 2.6's tool does not know the action and prints the entry.
    let text = answer(&["trace", "--pytorch", &path]);
    assert!(text.contains("{'action': 'annotate', 'addr': "), "{text}");
}
