//! `memreel ranks`: the real ranks of a training, and files that are odd.

use std::{
    fs::{self, File},
    path::Path,
    process::Stdio,
};

use memreel::{Reel, device::Simulated, recorder::Recording};
use memreel_snapshot::pickle;
use serde_json::{Value, json};
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

/// Runs the program with a file as standard input.
fn piped(words: &[&str], file: &Path) -> (String, String, Option<i32>) {
    let input = Stdio::from(File::open(file).unwrap());
    let output = memreel(&["ranks"]).args(words).stdin(input).output().unwrap();
    (stdout(&output).to_owned(), stderr(&output).to_owned(), output.status.code())
}

/// Lines of a terminal become one again.
fn joined(text: &str) -> String {
    text.replace("\n  ", " ")
}

/// A rank of six steps of 10 MiB each.
struct Made<'n> {
    scope: Option<&'n str>,
    first_us: u64,
    /// What the fourth step needs instead.
    fourth_mib: u64,
}

const USUAL: Made<'static> = Made { scope: Some("step"), first_us: 1_700_000_000_000_000, fourth_mib: 10 };

impl Made<'_> {
    fn save(&self, path: &Path) {
        let (mut time_us, mut events, mut marks) = (self.first_us, Vec::new(), Vec::new());
        let mut event = |action: &str, mib: u64, time_us: &mut u64| {
            *time_us += 100_000;
            events.push(json!({
                "action": action, "addr": 1 << 30, "size": mib << 20, "stream": 0, "time_us": *time_us,
                "frames": [{"name": "forward", "filename": "train.py", "line": 7}],
            }));
        };
        event("segment_alloc", 100, &mut time_us);
        for step in 0..6 {
            let mut mark = |stage: &str, time_us: u64| {
                let name = self.scope.unwrap_or_default();
                marks.push(json!({"stage": stage, "name": name, "device": 0, "time_us": time_us}));
            };
            let mib = if step == 3 { self.fourth_mib } else { 10 };
            mark("START", time_us + 1);
            for action in ["alloc", "free_requested", "free_completed"] {
                event(action, mib, &mut time_us);
            }
            mark("END", time_us + 1);
        }
        if self.scope.is_none() {
            marks.clear();
        }
        let snapshot = json!({"segments": [], "device_traces": [events], "external_annotations": marks});
        fs::write(path, snapshot.to_string()).unwrap();
    }
}

/// A folder with three usual ranks, and rank 3, which needs more in its fourth step.
fn made(scope: Option<&str>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..4 {
        let fourth_mib = if rank == 3 { 30 } else { 10 };
        Made { scope, fourth_mib, ..USUAL }.save(&folder.path().join(format!("rank{rank}.json")));
    }
    folder
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
        let peaks: Vec<u64> = of.iter().map(|one| one["peak_bytes"].as_u64().unwrap()).collect();
        assert_eq!(step["median_bytes"], u64::midpoint(peaks[0], peaks[1]));
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
        out.contains("2 ranks in 3 files, 1 outlier")
            && out.contains("rank2.pickle: not a readable snapshot: "),
        "{out}"
    );
    let (out, _, status) = ranks(&[text(folder.path()), "--by", "step"]);
    assert!(status == Some(3) && out.contains("rank2.pickle: not a readable snapshot: "), "{out}");
    let (out, _, _) = ranks(&[text(folder.path()), "--by", "step", "--json"]);
    assert_eq!(lines(&out).last().unwrap()["rank"], 2, "{out}");
    let (out, _, _) = ranks(&["--json", text(folder.path())]);
    assert_eq!(lines(&out)[2]["rank"], 2);
    assert!(lines(&out)[2]["error"].as_str().unwrap().contains("cut off"), "{out}");
}

#[test]
fn notes_name_what_is_odd_about_the_files() {
    let odd = folder(&[("a-rank0.pickle", RANK_0), ("b-rank0.pickle", RANK_0), ("rank3.pickle", RANK_0)]);
    let (out, _, status) = ranks(&[text(odd.path())]);
    assert_eq!(status, Some(0), "equal ranks have no outlier: {out}");
    for note in ["note: several files belong to rank 0; each", "note: no file for rank 1, 2\n"] {
        assert!(out.contains(note), "{out}");
    }
    for line in ["\nrank 0, …/a-rank0.pickle ", "\nrank 0, …/b-rank0.pickle ", "\nrank 3 "] {
        assert!(out.contains(line), "a line names its file if its rank does not: {out}");
    }
    let thrice = ["a-rank0.pickle", "b-rank0.pickle", "c-rank0.pickle"].map(|name| (name, RANK_0));
    assert!(ranks(&[text(folder(&thrice).path())]).0.contains("several files belong to rank 0; each"));
    let far = folder(&[("rank0.pickle", RANK_0), ("rank18446744073709551615.pickle", RANK_0)]);
    let (out, _, status) = ranks(&[text(far.path())]);
    assert!(status == Some(0) && out.contains("note: no file for rank 1, 2, 3"), "{out}");
    let unlike = folder(&[("rank0.pickle", RANK_0), ("rank1.pickle", OTHER)]);
    let (out, _, _) = ranks(&[text(unlike.path())]);
    assert!(joined(&out).contains("the clocks disagree, or the files are from several runs"), "{out}");
    let late = made(Some("step"));
    Made { first_us: USUAL.first_us + 5 * 3_600_000_000 - 1, ..USUAL }.save(&late.path().join("rank1.json"));
    let (out, _, _) = ranks(&[text(late.path())]);
    assert!(joined(&out).contains("note: the first events are 5 h apart: the clocks disagree"), "{out}");
    let plain = folder(&[("rank0.pickle", PLAIN), ("rank1.pickle", PLAIN)]);
    let (out, _, _) = ranks(&[text(plain.path())]);
    assert!(joined(&out).contains("no ranks have scopes, so they are compared by the time"), "{out}");
    assert!(ranks(&[text(plain.path()), "--by", "step"]).0.contains("no ranks have scopes"));
}

#[test]
fn the_first_to_run_out_of_memory_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for (rank, after_us) in [(0, 2_500_000), (1, 1_000_000), (2, 3_000_000)] {
        let event = |action: &str, time_us: u64| json!({"action": action, "addr": 0, "size": 1 << 30, "stream": 0, "time_us": time_us});
        let events = [event("alloc", USUAL.first_us), event("oom", USUAL.first_us + after_us)];
        let snapshot = json!({"segments": [], "device_traces": [events]});
        fs::write(folder.path().join(format!("rank{rank}.json")), snapshot.to_string()).unwrap();
    }
    let (out, _, status) = ranks(&[text(folder.path())]);
    assert_eq!(status, Some(1), "{out}");
    assert!(
        out.starts_with("3 of 3 ranks ran out of memory, first rank 1\n3 ranks in 3 files, no outlier"),
        "{out}"
    );
    assert!(
        joined(&out)
            .contains(&format!("why it failed: memreel oom {}", text(&folder.path().join("rank1.json")))),
        "{out}"
    );
    let order: Vec<&str> = out.lines().filter(|line| line.starts_with("rank ")).skip(1).collect();
    assert!(
        order.iter().zip(["rank 1", "rank 0", "rank 2"]).all(|(line, rank)| line.starts_with(rank)),
        "{out}"
    );
    assert!(
        joined(&out).contains(
            "note: rank 1 ran out of memory first, 1.500 s before rank 0 by their clocks, of 3 ranks"
        ),
        "{out}"
    );
}

/// Neither a rank without a failure nor one of several is said to be alone.
#[test]
fn what_several_ranks_have_is_not_said_of_one() {
    let two_of_five: Vec<String> = (0..5).map(|rank| format!("rank{rank}.pickle")).collect();
    let two_of_five: Vec<(&str, &str)> = two_of_five
        .iter()
        .zip([RANK_1, RANK_1, RANK_0, RANK_0, RANK_0])
        .map(|(name, of)| (&**name, of))
        .collect();
    let (out, _, _) = ranks(&[text(folder(&two_of_five).path())]);
    let first = joined(&out);
    assert!(
        first.starts_with(
            "rank 0 ran out of memory after step#3: <module> (fsdp_ranks.py:38) holds 1.19 GiB that most"
        ),
        "{out}"
    );
    assert!(first.contains("(fsdp_ranks.py:38); none on the 3 other ranks"), "{out}");
    let (out, _, status) = ranks(&[text(folder(&two_of_five[..3]).path())]);
    assert_eq!(status, Some(1));
    assert!(out.starts_with("2 of 3 ranks ran out of memory, first rank 0 after step#3\n"), "{out}");
    assert!(joined(&out).contains("why it failed: memreel oom "), "{out}");
}

#[test]
fn the_first_difference_has_a_column() {
    /// The last cells, below their heading.
    fn cells(out: &str) -> Vec<&str> {
        let is_row = |line: &&str| line.starts_with("rank ") && !line.contains(" ran out of memory ");
        let heading = out.lines().find(|line| is_row(line) && line.contains("  peak")).unwrap();
        assert!(heading.ends_with("  first difference"), "{out}");
        let rows = out.lines().skip_while(|line| *line != heading).skip(1).filter(is_row);
        rows.map(|line| line.rsplit("  ").next().unwrap().trim()).collect()
    }
    let (out, _, _) = ranks(&["torch-2.11/ranks"]);
    assert_eq!(cells(&out), ["step#0", "-"]);
    let rows =
        out.lines().skip_while(|line| !line.starts_with("rank ")).filter(|line| !line.starts_with("  "));
    rows.for_each(|line| assert!(line.chars().count() <= 120, "{line}"));
    for (scope, expected) in
        [(Some("step"), "step#3"), (None, "0.999 s"), (Some(LONG), "Profil…tches_of_32#3")]
    {
        let folder = made(scope);
        let (out, _, status) = ranks(&[text(folder.path())]);
        assert_eq!((cells(&out), status), (vec![expected, "-", "-", "-"], Some(1)), "{out}");
        // It is the one among the reasons, and the one in JSON.
        let (json, _, _) = ranks(&[text(folder.path()), "--json"]);
        let first = &lines(&json)[0]["first_difference"];
        let begin = first["begin"].as_str().unwrap();
        let place = if scope.is_some() { "of" } else { "after" };
        assert!(
            out.contains(&format!("  first difference, in the peak {place} {begin}: 30.00 MiB, ")),
            "{out}"
        );
        assert!(lines(&json)[0]["whys"].as_array().unwrap().contains(first), "{json}");
        if scope == Some(LONG) {
            assert_eq!(begin, format!("{LONG}#3"), "only the cell is short");
            assert!(out.lines().all(|line| line.starts_with("  ") || line.chars().count() <= 120), "{out}");
        } else {
            assert_eq!(begin, expected);
        }
        assert_eq!(lines(&json)[1]["first_difference"], Value::Null);
    }
}

/// The name of a scope that is wider than a cell.
const LONG: &str = "ProfilerStep of a training with many batches_of_32";

#[test]
fn a_tape_that_is_still_written_has_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let tape = folder.path().join("rank0.tape");
    let reel = Reel::builder().device(Simulated::new(1 << 30)).history(Recording::all().tape(&tape));
    let reel = reel.build().unwrap();
    let block = reel.alloc(5 << 20).unwrap();
    let whole = fs::read(&tape).unwrap();
    fs::write(folder.path().join("rank1.tape"), &whole[..100]).unwrap();
    let note = "note: 1 file is still written, so the last step and the end may differ";
    let (out, error, status) = ranks(&[text(folder.path())]);
    assert!(joined(&out).contains(note) && out.contains("5.00 MiB"), "{out}{error}");
    assert!(status == Some(3) && out.contains("rank1.tape: "), "{out}{error}");
    drop((block, reel));
    let (out, _, status) = ranks(&[text(&tape)]);
    assert!(status == Some(0) && !out.contains("still written"), "{out}");
}

#[test]
fn nothing_to_read_is_refused() {
    let empty = tempfile::tempdir().unwrap();
    let none = empty.path().join("rank*.pickle");
    let (_, error, status) = ranks(&[text(empty.path())]);
    assert!(status == Some(3) && error.contains("it is a folder without snapshots"), "{error}");
    let (_, error, status) = ranks(&[text(&none)]);
    assert!(status == Some(3) && error.contains("no files match this pattern"), "{error}");
    let (_, error, status) = ranks(&["nothing.pickle"]);
    assert!(status == Some(3) && error.contains("nothing.pickle: cannot be read"), "{error}");
    let (_, error, status) = ranks(&["rank[.pickle"]);
    assert!(status == Some(2) && error.contains("rank[.pickle: "), "{error}");
    // Of the other arguments there is an answer.
    let words = [text(empty.path()), text(&none), "nothing", RANK_0, RANK_1];
    let (out, error, status) = ranks(&words);
    assert!(status == Some(3) && error.is_empty() && out.contains("2 ranks in 3 files, 1 outlier"), "{out}");
    for line in [
        "it is a folder without snapshots",
        "no files match this pattern",
        "\nnothing: cannot be read: No such file",
    ] {
        assert!(out.contains(line), "{out}");
    }
    let (out, _, _) = ranks(&[&["--json"], &words[..]].concat());
    let errors = lines(&out).into_iter().filter(|line| line["error"].is_string());
    assert_eq!(errors.map(|line| line["rank"].clone()).collect::<Vec<_>>(), vec![Value::Null; 3], "{out}");
}

#[test]
fn a_rank_is_read_from_standard_input_once() {
    let rank_1 = fixture(RANK_1);
    let (out, _, status) = piped(&["-"], &rank_1);
    assert!(status == Some(1) && out.contains("\nstandard input "), "{out}");
    assert!(joined(&out).contains("note: with fewer than 3 ranks, no figure is typical"), "{out}");
    let (out, _, status) = piped(&[RANK_0, "-"], &rank_1);
    assert!(status == Some(1) && out.contains("2 ranks in 2 files, 1 outlier"), "{out}");
    for (words, why) in
        [(["-", "-", "-"], "give `-` only once"), (["-", "--html", "x.html"], "can only be read once")]
    {
        let (out, error, status) = piped(&words, &rank_1);
        assert!(status == Some(2) && out.is_empty() && error.contains(why), "{out}{error}");
    }
    let (_, error, status) = piped(&["-"], Path::new("/dev/null"));
    assert!(status == Some(3) && error.contains("standard input: not a memory snapshot"), "{error}");
}

/// A thousand files, and of those that cannot be read the first twenty.
#[test]
fn many_files_have_few_lines() {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..1000 {
        let path = folder.path().join(format!("rank{rank}.json"));
        let fourth_mib = if rank == 777 { 30 } else { 10 };
        if rank % 40 == 5 { fs::write(path, "{").unwrap() } else { Made { fourth_mib, ..USUAL }.save(&path) }
    }
    let (out, _, status) = ranks(&[text(folder.path())]);
    assert!(status == Some(3) && out.contains("975 ranks in 1000 files, 1 outlier"), "{out}");
    assert!(out.contains("964 more like the others") && out.contains("\n5 more cannot be read"), "{out}");
    let broken = out.lines().filter_map(|line| Some(line.split_once(".json: ")?.0.rsplit_once("rank")?.1));
    let expected: Vec<String> = (0..20).map(|at| (at * 40 + 5).to_string()).collect();
    assert_eq!(broken.collect::<Vec<_>>(), expected, "in the order of their ranks");
    let (out, _, _) = ranks(&[text(folder.path()), "--json"]);
    assert_eq!(lines(&out).len(), 1000);
    let of_broken = folder.path().join("rank*5.json");
    for rank in 0..1000 {
        fs::write(folder.path().join(format!("rank{rank}.json")), "{").unwrap();
    }
    let (out, error, status) = ranks(&[text(&of_broken)]);
    assert!(
        status == Some(3) && out.is_empty() && error.ends_with("memreel: 80 more cannot be read\n"),
        "{error}"
    );
}

#[test]
fn a_command_says_what_to_ask_next() {
    let command = |words: &[&str]| {
        let (out, _, _) = ranks(words);
        let words = joined(&out).replace(" \\", "");
        words.lines().find_map(|line| Some(line.split_once(": memreel ")?.1.replace("  ", " ")))
    };
    let made = made(Some("step"));
    let [usual, other] = [0, 3].map(|rank| made.path().join(format!("rank{rank}.json")));
    let diff = format!("diff --at peak {} {}", usual.display(), other.display());
    for (asked, expected, holds) in [
        ("torch-2.11/ranks", format!("oom {RANK_1}"), "fsdp_ranks.py:38"),
        (text(made.path()), diff, "forward (train.py:7)"),
    ] {
        let command = command(&[asked]);
        assert_eq!(command.as_deref(), Some(&*expected));
        let answer = memreel(&expected.split(' ').collect::<Vec<_>>()).output().unwrap();
        assert!(stdout(&answer).contains(holds), "{expected}: {}{}", stdout(&answer), stderr(&answer));
    }
    assert_eq!(command(&[RANK_0]), None, "no rank differs");
}

#[test]
fn the_first_ranks_become_a_page() {
    let folder = of_gpus(2);
    let page = folder.path().join("ranks.html");
    let (_, error, status) = ranks(&[text(folder.path()), "--html", text(&page)]);
    assert_eq!(status, Some(0), "{error}");
    assert!(fs::read_to_string(page).unwrap().starts_with("<!doctype html>"));
}

/// What `memreel record` writes of a rank of a run with a GPU each: the rank has blocks on the GPU of its number, maps memory of
/// the next one, as NCCL does, and has pinned memory.
fn of_a_gpu(rank: usize, n_ranks: usize, mib: u64) -> Value {
    let event = |action: &str, addr: u64, mib: u64| {
        let frames = json!([{"name": "forward", "filename": "train.py", "line": 7}]);
        json!({"action": action, "addr": addr, "size": mib << 20, "stream": 0, "time_us": 1 + rank, "frames": frames})
    };
    let mut traces = vec![json!([]); n_ranks + 1];
    traces[rank] = json!([event("segment_alloc", 1 << 30, 900), event("alloc", 1 << 30, mib)]);
    traces[(rank + 1) % n_ranks] = json!([event("segment_alloc", 1 << 40, 288)]);
    traces[n_ranks] = json!([event("segment_alloc", 1 << 50, 2), event("alloc", 1 << 50, 2)]);
    let gpus = (0..n_ranks)
        .map(|gpu| json!({"device": gpu, "name": "GPU", "uuid": format!("GPU-{gpu}"), "reports": []}));
    let pinned = json!({"device": n_ranks, "name": "pinned host memory", "uuid": "", "reports": []});
    let usage: Vec<Value> = gpus.chain([pinned]).collect();
    json!({"segments": [], "device_traces": traces, "allocator_settings": {"memreel_usage": usage}})
}

/// Returns a folder with such files, of which that of rank 2 has more than the others.
fn of_gpus(n_ranks: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..n_ranks {
        let mib = if rank == 2 { 700 } else { 500 };
        let file = folder.path().join(format!("rank{rank}.json"));
        fs::write(file, of_a_gpu(rank, n_ranks, mib).to_string()).unwrap();
    }
    folder
}

#[test]
fn ranks_are_compared_by_the_gpu_of_each() {
    let folder = of_gpus(4);
    let (out, err, status) = ranks(&[text(folder.path())]);
    assert_eq!(status, Some(1), "{out}{err}");
    let site =
        "rank 2 differs from the others: forward (train.py:7) holds 200.00 MiB more than on the other ranks";
    assert!(joined(&out).starts_with(site), "{out}");
    assert!(out.contains("4 ranks in 4 files, 1 outlier; peaks from 500.00 MiB to 700.00 MiB"), "{out}");
    assert!(joined(&out).contains("note: device 4 is host memory and is not compared"), "{out}");
    let (out, err, status) = ranks(&[text(folder.path()), "--device", "4"]);
    assert_eq!(status, Some(0), "{out}{err}");
    assert!(out.contains("4 ranks in 4 files, no outlier"), "{out}");
}

#[test]
fn a_difference_of_two_ranks_is_that_of_the_gpu_of_each() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = [(0, 500), (1, 700)].map(|(rank, mib)| {
        let file = folder.path().join(format!("rank{rank}.json"));
        fs::write(&file, of_a_gpu(rank, 4, mib).to_string()).unwrap();
        file
    });
    let answers = |words: &[&str]| -> Vec<Value> {
        let out = memreel(&["diff", "--json", text(&one), text(&other)]).args(words).output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
        lines(stdout(&out))
    };
    let all = answers(&[]);
    let devices: Vec<_> =
        all.iter().map(|line| (line["device"].clone(), line["after_device"].clone())).collect();
    assert_eq!(devices, [(0.into(), 1.into()), (4.into(), 4.into())]);
    let bytes = ["before_peak_bytes", "after_peak_bytes"].map(|key| all[0][key].as_u64().unwrap() >> 20);
    assert_eq!(bytes, [500, 700]);
    // A device that is named is that of both files.
    assert_eq!(answers(&["--device", "1"])[0]["before_peak_bytes"], 0);
    let out = memreel(&["diff", text(&one), text(&other)]).output().unwrap();
    let head = format!(
        "comparing device 0 of {} with device 1 of {} (the only GPU in each file)",
        text(&one),
        text(&other)
    );
    assert!(joined(stdout(&out)).starts_with(&joined(&head)), "{}", stdout(&out));
}
