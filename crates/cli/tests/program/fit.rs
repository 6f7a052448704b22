//! `memreel fit`: its output and its exit statuses.

#![forbid(unsafe_code)]

use std::path::Path;

use memreel_snapshot::pickle;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    sized_recording::{model, snapshot},
    support::memreel,
};

/// Writes two runs of a training with attention that takes memory with the square of the length.
fn runs() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let model = model("llama_eager");
    for size in [512, 768] {
        pickle::save(&snapshot(&model, size), folder.path().join(format!("{size}.pickle"))).unwrap();
    }
    folder
}

/// Returns the status, the answer and the message.
fn fit(folder: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let output = memreel(&[&["fit"], words].concat()).current_dir(folder).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_largest_length_is_found_with_its_failure() {
    let folder = runs();
    let words = ["--limit", "8GiB", "--step", "64", "512=512.pickle", "768=768.pickle"];
    let (status, text, message) = fit(folder.path(), &words);
    assert_eq!((status, &*message), (Some(0), ""));
    assert!(text.starts_with("size 1280 fits in 8.00 GiB, with "), "{text}");
    assert!(text.contains("size 1344 does not fit: a request for "), "{text}");
    let (_, json, _) = fit(folder.path(), &[&words[..], &["--json", "--at", "1536"]].concat());
    let answer: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(answer["largest"], json!([1280]));
    let sizes = |key: &str| answer[key].as_array().unwrap().iter().map(|of| of["size"][0].clone()).collect();
    let [predicted, recorded]: [Vec<Value>; 2] = ["predictions", "recorded"].map(sizes);
    assert_eq!(
        (predicted, recorded),
        (vec![json!(1280), json!(1344), json!(1536)], vec![json!(512), json!(768)])
    );
    // An H200 reserved that.
    assert_eq!(answer["predictions"][2]["reserved_peak_bytes"], 10_550_771_712_u64);
}

/// The softmax of the attention has a square of the length, twice: the longest sequence without it is longer.
#[test]
fn a_changed_program_has_its_own_answer() {
    let folder = runs();
    let sizes = ["--limit", "8GiB", "--step", "64", "512=512.pickle", "768=768.pickle"];
    let without = ["--without", "softmax (functional.py:2161)"];
    let (status, text, _) = fit(folder.path(), &[&without[..], &sizes].concat());
    let largest = |text: &str| text.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
    assert_eq!(status, Some(0));
    assert!(
        largest(&text) > 1280 && text.contains("fits in 8.00 GiB without softmax (functional.py:2161)"),
        "{text}"
    );
    let double = ["--scale", "nn/functional.py:2161=2"];
    let (_, text, _) = fit(folder.path(), &[&double[..], &sizes].concat());
    assert!(largest(&text) < 1280, "{text}");
    for (words, expected) in [
        (["--without", "elsewhere"], "no request on device 0 is made inside \"elsewhere\""),
        (["--scale", "softmax"], "is not a call and a factor"),
        (["--scale", "softmax=0"], "the factor 0 is not above 0"),
    ] {
        let (status, _, message) = fit(folder.path(), &[&words[..], &sizes].concat());
        assert_eq!(status, Some(2), "{message}");
        assert!(message.contains(expected), "{message}");
    }
    let replay = |words: &[&str]| {
        let words = [&["replay", "--json"], words, &["512.pickle"]].concat();
        let output = memreel(&words).current_dir(folder.path()).output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        (
            answer["allocated_peak_bytes"].as_u64().unwrap(),
            answer["changes"].clone(),
            answer["confidence"].clone(),
        )
    };
    let ((whole, _, _), (less, changes, confidence)) = (replay(&[]), replay(&without));
    assert!(less < whole, "{less} {whole}");
    assert_eq!((changes, confidence), (json!(["without softmax (functional.py:2161)"]), json!("fair")));
}

#[test]
fn sizes_have_names_and_one_or_two_numbers() {
    let folder = runs();
    let named = ["--size", "len=512", "512.pickle", "--size", "len=768", "768.pickle", "--at", "len=1024"];
    let (status, text, _) = fit(folder.path(), &named);
    assert_eq!(status, Some(0));
    assert!(text.contains("1024"), "{text}");
    let both = ["batch=2,len=512=512.pickle", "batch=2,len=768=768.pickle", "--at", "2,1024", "--json"];
    let (_, json, _) = fit(folder.path(), &both);
    let answer: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&answer["names"], &answer["predictions"][0]["size"]),
        (&json!(["batch", "len"]), &json!([2, 1024]))
    );
}

#[test]
fn what_is_no_pair_of_runs_is_refused() {
    let folder = runs();
    for (words, what) in [
        (&["512=512.pickle"][..], "needs runs of two sizes"),
        (&[], "needs runs of two sizes"),
        (&["512=512.pickle", "512=768.pickle"], "one run per size"),
        (&["768=512.pickle", "512=768.pickle"], "are the files in the order of their sizes?"),
        (&["512=512.pickle", "768=768.pickle", "--limit", "24"], "add a unit, such as 24GiB"),
        (
            &["512=512.pickle", "768=768.pickle", "--limit", "8GiB", "--step", "18446744073709551615"],
            "is larger than any size",
        ),
        (&["2,512=512.pickle", "2,768=768.pickle", "--at", "3,512"], "number of every run is 2"),
        (&["b=2,b=512=512.pickle", "b=2,b=768=768.pickle"], "is not of the form SIZE=FILE"),
        (&["0=512.pickle", "768=768.pickle"], "is not of the form SIZE=FILE"),
        (&["512.pickle", "768.pickle"], "is not of the form SIZE=FILE"),
        (&["a=512=512.pickle", "b=768=768.pickle"], "or different names"),
        (&["512=512.pickle", "768=768.pickle", "--at", "1,2"], "is not a size of these runs"),
        (&["512=512.pickle", "768=768.pickle", "--step", "8"], "--limit"),
        (&["512=512.pickle", "768=768.pickle", "--conf", "no_option:1"], "no_option"),
    ] {
        let (status, text, message) = fit(folder.path(), words);
        assert_eq!((status, &*text), (Some(2), ""), "{words:?}: {message}");
        assert!(message.contains(what), "{words:?}: {message}");
    }
    let (status, _, message) = fit(folder.path(), &["512=512.pickle", "768=missing.pickle"]);
    assert_eq!(status, Some(3), "{message}");
    assert!(message.contains("missing.pickle"), "{message}");
}
