//! `memreel at --address`: who had an address.

#![forbid(unsafe_code)]

use std::fs;

use memreel::{Reel, recorder::Recording};
use serde_json::Value;

use crate::support::{answer, run, stderr};

/// A block in a graph's pool was freed, and its address given to another one: both are listed, with what still covers it.
#[test]
fn every_owner_of_an_address_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.pickle");
    let reel = Reel::builder().history(Recording::all()).build().unwrap();
    let scope = reel.scope("first");
    let first = reel.alloc(1000).unwrap();
    let address = first.address();
    drop((scope, first));
    let second = reel.alloc(600).unwrap();
    second.annotate("weights");
    assert_eq!(second.address(), address);
    reel.save(&path).unwrap();
    let path = path.to_str().unwrap();
    let text = answer(&["at", "--address", &format!("{address:#x}"), path]);
    for part in
        ["2 blocks over time", "segment_alloc", "in scope first", "named weights", "in use since event"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let rows: Vec<usize> = ["1000 B", "free", "600 B"].iter().map(|part| text.find(part).unwrap()).collect();
    assert!(rows.is_sorted(), "{text}");
    let object = |words: &[&str]| serde_json::from_str::<Value>(&answer(words)).unwrap();
    let json = object(&["at", "--json", "--address", &address.0.to_string(), path]);
    let sizes: Vec<_> =
        json["owners"].as_array().unwrap().iter().map(|owner| &owner["requested_bytes"]).collect();
    assert_eq!(sizes, [1000, 600]);
    assert_eq!(
        (&json["owners"][0]["is_active"], &json["owners"][1]["is_active"]),
        (&false.into(), &true.into())
    );
    assert_eq!(json["owners"][0]["scope"], "first");
    assert_eq!(json["owners"][1]["names"][0], "weights");
    // After the first allocation, the first block is there.
    let event = json["owners"][0]["allocated_by_event"].to_string();
    let then = object(&["at", "--json", "--address", &format!("{address:#x}+1KiB"), &event, path]);
    assert_eq!(then["owners"][0]["is_active"], true);
    let nowhere = answer(&["at", "--address", "0x1", path]);
    assert!(nowhere.contains("nothing was ever there; the blocks of device 0 are between 0x"), "{nowhere}");
    let other = folder.path().join("other.pickle");
    fs::copy(path, &other).unwrap();
    let two = answer(&["at", "--address", &format!("{address:#x}"), "end", path, other.to_str().unwrap()]);
    assert_eq!(two.matches("2 blocks over time").count(), 2);
    for (wrong, why) in [("7f", "is not an address"), ("0x10..0x10", "is empty")] {
        let output = run(&["at", "--address", wrong, path]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}
