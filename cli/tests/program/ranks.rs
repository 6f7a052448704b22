//! `memreel ranks`: the real ranks of a training, and files that are odd.

use std::{fs, path::Path};

use memreel::pickle;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{fixture, memreel, stderr, stdout};

/// What the program prints, what it says on standard error, and its status.
fn ranks(words: &[&str]) -> (String, String, Option<i32>) {
    let output = memreel(&["ranks"]).args(words).output().unwrap();
    (stdout(&output).to_owned(), stderr(&output).to_owned(), output.status.code())
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A folder with copies of fixtures: names of files, and the fixtures.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, of) in files {
        fs::copy(fixture(of), folder.path().join(name)).unwrap();
    }
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

const RANK_0: &str = "torch-2.11/ranks/rank0.pickle";
const RANK_1: &str = "torch-2.11/ranks/rank1.pickle";
const PLAIN: &str = "torch-2.11/snapshots/oom_fragment.pickle";
const OTHER: &str = "torch-2.11/snapshots/resnet18_python_stacks.pickle";

#[test]
fn the_rank_that_ran_out_of_memory_is_the_outlier() {
    let (out, _, status) = ranks(&["torch-2.11/ranks", "--json"]);
    let found = lines(&out);
    assert_eq!(status, Some(1));
    assert_eq!(
        [&found[0]["rank"], &found[0]["is_outlier"], &found[1]["is_outlier"]],
        [&Value::from(1), &Value::from(true), &Value::from(false)]
    );
    let truth = pickle::load(fixture(RANK_1)).unwrap();
    let trace = &truth.device_traces[1];
    let failed =
        trace.iter().position(|entry| entry.action.is_some_and(|action| action.name() == "oom")).unwrap();
    assert_eq!(
        [found[0]["oom"]["event"].as_u64(), found[0]["oom"]["requested_bytes"].as_u64()],
        [Some(failed as u64), Some(trace[failed].size)]
    );
    let mut frames = truth.frames(trace[failed].stack);
    assert!(
        frames.any(|frame| found[0]["oom"]["site"].as_str().unwrap().contains(&*frame.name)),
        "{}",
        found[0]["oom"]
    );
    assert!(found[0]["whys"][0]["text"].as_str().unwrap().contains("fsdp_ranks.py:38"));
    let steps = |rank: &Value| {
        rank["steps"].as_array().unwrap().iter().map(|step| step["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(steps(&found[0]), steps(&found[1]));
    let (out, _, status) = ranks(&["torch-2.11/ranks/rank*.pickle", "--by", "step", "--json"]);
    assert_eq!((status, lines(&out).len()), (Some(1), steps(&found[0]).len()));
    for step in lines(&out) {
        let of = step["ranks"].as_array().unwrap();
        assert_eq!(
            of.iter().map(|one| one["rank"].as_u64().unwrap()).collect::<Vec<_>>(),
            [0, 1],
            "rank 1 has more in each step"
        );
    }
}

#[test]
fn a_broken_file_is_a_line_and_not_an_end() {
    let folder = folder(&[("rank0.pickle", RANK_0), ("rank1.pickle", RANK_1)]);
    let whole = fs::read(fixture(RANK_0)).unwrap();
    fs::write(folder.path().join("rank2.pickle"), &whole[..whole.len() / 2]).unwrap();
    let (out, _, status) = ranks(&[text(folder.path())]);
    assert_eq!(status, Some(3));
    assert!(
        out.contains("2 ranks of 3 files, 1 outlier") && out.contains("rank2.pickle: cannot be read: "),
        "{out}"
    );
    let (out, _, _) = ranks(&["--json", text(folder.path())]);
    assert_eq!(lines(&out)[2]["rank"], 2);
    assert!(lines(&out)[2]["error"].as_str().unwrap().contains("cut off"), "{out}");
}

#[test]
fn notes_name_what_is_odd_about_the_files() {
    let odd = folder(&[("a-rank0.pickle", RANK_0), ("b-rank0.pickle", RANK_0), ("rank3.pickle", RANK_0)]);
    let (out, _, status) = ranks(&[text(odd.path())]);
    assert_eq!(status, Some(0), "equal ranks have no outlier: {out}");
    for note in ["note: several files are of rank 0", "note: no file is of rank 1, 2"] {
        assert!(out.contains(note), "{out}");
    }
    let far = folder(&[("rank0.pickle", RANK_0), ("rank18446744073709551615.pickle", RANK_0)]);
    let (out, _, status) = ranks(&[text(far.path())]);
    assert!(status == Some(0) && out.contains("note: no file is of rank 1, 2, 3"), "{out}");
    let unlike = folder(&[("rank0.pickle", RANK_0), ("rank1.pickle", OTHER)]);
    let (out, _, _) = ranks(&[text(unlike.path())]);
    assert!(
        out.replace("\n  ", " ").contains("the clocks disagree, or the files are of several runs"),
        "{out}"
    );
    let plain = folder(&[("rank0.pickle", PLAIN), ("rank1.pickle", PLAIN)]);
    let (out, _, _) = ranks(&[text(plain.path())]);
    assert!(out.replace("\n  ", " ").contains("no rank has scopes; ranks are compared by the time"), "{out}");
    assert!(ranks(&[text(plain.path()), "--by", "step"]).0.contains("no rank has scopes"));
}

#[test]
fn nothing_to_read_is_refused() {
    let empty = tempfile::tempdir().unwrap();
    let (_, error, status) = ranks(&[text(empty.path())]);
    assert!(status == Some(3) && error.contains("the folder has no snapshots"), "{error}");
    let (_, error, status) = ranks(&[text(&empty.path().join("rank*.pickle"))]);
    assert!(status == Some(3) && error.contains("no file has such a name"), "{error}");
    let (_, error, status) = ranks(&["nothing.pickle"]);
    assert!(status == Some(3) && error.contains("nothing.pickle: cannot be read"), "{error}");
}

#[test]
fn the_first_ranks_become_a_page() {
    let folder = folder(&[("rank0.pickle", RANK_0), ("rank1.pickle", RANK_1)]);
    let page = folder.path().join("ranks.html");
    let (_, error, status) = ranks(&[text(folder.path()), "--html", text(&page)]);
    assert_eq!(status, Some(1), "{error}");
    assert!(fs::read_to_string(page).unwrap().starts_with("<!doctype html>"));
}
