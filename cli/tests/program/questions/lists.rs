//! Lists in JSON: all frames of a stack, and the sum of what `-n` leaves out.

#![forbid(unsafe_code)]

use serde_json::{Value, json};

use crate::support::run;

const FILE: &str = "torch-2.11/snapshots/transformer_all_stacks.pickle";

fn object(arguments: &[&str], file: &str) -> Value {
    let path = crate::support::fixture(file);
    let output = run(&[arguments, &["--json", path.to_str().unwrap()]].concat());
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn stacks_have_all_frames_with_a_mark() {
    let answer = object(&["top"], FILE);
    let stack = answer["groups"][0]["stack"].as_array().unwrap();
    let is_shown = |frame: &&Value| frame["is_shown"] == true;
    assert_eq!(stack[0]["name"], "torch::unwind::unwind()");
    let mut shown = stack.iter().filter(is_shown).map(|frame| frame["name"].as_str().unwrap());
    assert!(shown.next().unwrap().starts_with("at::cuda::setWorkspaceForHandle("));
    assert_eq!(shown.next().unwrap(), "_in_projection_packed");
    assert!(stack.iter().filter(is_shown).count() < stack.len());
}

#[test]
fn what_a_list_leaves_out_is_summed() {
    let questions: [(&[&str], &str); 6] = [
        (&["top"], "groups"),
        (&["top", "--by", "function"], "groups"),
        (&["leaks"], "sites"),
        (&["leaks", "--older-than", "10"], "groups"),
        (&["churn"], "sites"),
        (&["fragmentation"], "pinned"),
    ];
    for (question, list) in questions {
        let bytes = |row: &Value| row["free_bytes"].as_u64().or(row["bytes"].as_u64()).unwrap();
        let all = object(&[question, &["-n", "1000000"]].concat(), FILE);
        assert_eq!(all["rest"], json!({"count": 0, "bytes": 0}), "{question:?}");
        let all = all[list].as_array().unwrap().clone();
        let first = object(&[question, &["-n", "1"]].concat(), FILE);
        assert_eq!(first[list].as_array().unwrap().len(), all.len().min(1), "{question:?}");
        let sum: u64 = all.iter().skip(1).map(bytes).sum();
        let rest = json!({"count": all.len().saturating_sub(1), "bytes": sum});
        assert_eq!(first["rest"], rest, "{question:?}");
    }
    let failed = object(&["oom", "-n", "0"], "torch-2.11/snapshots/oom_fragment.pickle");
    assert!(failed["rest"]["count"].as_u64() > Some(0), "{failed}");
}

#[test]
fn a_tree_is_a_list_of_branches() {
    let answer = object(&["top", "--tree"], FILE);
    assert_eq!(answer["groups"], Value::Null);
    let tree = answer["tree"].as_array().unwrap();
    assert_eq!(tree[0]["depth"], 0);
    assert!(tree.iter().any(|branch| branch["depth"] == 1 && branch["frame"]["name"] == "forward"));
    assert!(tree.iter().all(|branch| branch["bytes"].as_u64() > Some(0)));
}

#[test]
fn blocks_without_a_stack_have_the_keys_of_the_list() {
    let row = |by: &str| {
        let answer = object(&["top", "--by", by], "torch-2.11/snapshots/no_history.pickle");
        let mut keys: Vec<String> = answer["groups"][0].as_object().unwrap().keys().cloned().collect();
        keys.retain(|key| !["bytes", "blocks", "total_bytes"].contains(&key.as_str()));
        keys
    };
    assert_eq!(row("file"), ["filename"]);
    assert_eq!(row("function"), ["function", "filename"]);
}
