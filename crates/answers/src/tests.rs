//! The answers of a short history.

use memreel::{DeviceId, Reel, Snapshot, device::Simulated, recorder::Recording};
use serde_json::Value;

use super::*;

/// A recording of `n` blocks that are held, and of a request that fails.
fn snapshot(n: usize) -> Snapshot {
    let reel = Reel::builder().device(Simulated::new(64 << 20)).history(Recording::all()).build().unwrap();
    let held: Vec<_> = (0..n).map(|_| reel.alloc(1 << 20).unwrap()).collect();
    (0..4).for_each(|_| drop(reel.alloc(3 << 20).unwrap()));
    reel.alloc(100 << 20).unwrap_err();
    let snapshot = reel.snapshot();
    drop(held);
    snapshot
}

fn json<Q: Question>(question: &Q, snapshot: &Snapshot) -> Value {
    let subject = Subject::new(snapshot, DeviceId(0));
    serde_json::to_value(question.ask(&subject).unwrap()).unwrap()
}

fn keys(answer: &Value) -> Vec<&str> {
    answer.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn an_answer_has_its_keys_in_the_order_of_the_program() {
    let snapshot = snapshot(3);
    assert_eq!(keys(&json(&ChurnQuestion::default(), &snapshot)), ["cycles", "sites", "rest", "warnings"]);
    let of_moment = ["event", "active_bytes", "allocated_bytes", "reserved_bytes", "blocks"];
    let top = json(&TopQuestion::default(), &snapshot);
    let rest = ["is_exact", "is_whole", "is_of_run", "groups", "rest", "warnings"];
    assert_eq!(keys(&top), [&of_moment[..], &rest].concat());
    let tree = json(&TopQuestion { is_tree: true, ..TopQuestion::default() }, &snapshot);
    assert_eq!(keys(&tree)[5..], ["is_exact", "is_whole", "is_of_run", "tree", "warnings"]);
    let oom = json(&OomQuestion::default(), &snapshot);
    let lists = ["oom", "causes", "grown", "tried", "live", "pending", "rest", "is_exact"];
    assert_eq!(keys(&oom), [&lists[..], &["message", "warnings"]].concat());
}

#[test]
fn what_is_not_listed_is_counted() {
    let snapshot = snapshot(3);
    let allocated = json(&AllocatedQuestion { n: 0 }, &snapshot);
    assert_eq!(allocated["groups"], Value::Array(Vec::new()));
    assert_eq!(allocated["rest"]["bytes"], allocated["allocated_bytes"]);
    assert_eq!(allocated["blocks"], 7);
}

#[test]
fn a_request_that_did_not_fail_is_null() {
    let reel = Reel::builder().history(Recording::all()).build().unwrap();
    drop(reel.alloc(1000).unwrap());
    assert_eq!(json(&OomQuestion::default(), &reel.snapshot()).to_string(), r#"{"oom":null}"#);
}

#[test]
fn a_refusal_names_the_field() {
    let snapshot = Snapshot::default();
    let subject = Subject::new(&snapshot, DeviceId(0));
    let refused = |at| TopQuestion { at, ..TopQuestion::default() }.ask(&subject).unwrap_err();
    assert_eq!(refused(At::Oom).field(), "at");
    assert_eq!(refused(At::Entry(3)).to_string(), "no event 3 on device 0: there is no history");
    let by_owner =
        NewBlocksQuestion { by: memreel_snapshot::analysis::By::Owner, ..NewBlocksQuestion::default() };
    assert_eq!(by_owner.ask(&subject).unwrap_err().field(), "by");
}
