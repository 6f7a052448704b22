//! Files as people have them: of Windows, without a history, in a page, of other devices and of later releases.

#![forbid(unsafe_code)]

use std::{fs, iter, path::Path};

use base64::{Engine, prelude::BASE64_STANDARD};
use memreel_snapshot::pickle;
use serde_json::{Value, json};

use crate::support::{answer, fixture, run, stderr, stdout};

const BASE: u64 = 1 << 30;
const SEGMENT: u64 = 2 << 20;

fn frame(name: &str, filename: &str, line: u64) -> Value {
    json!({"name": name, "filename": filename, "line": line})
}

fn event(action: &str, at: u64, size: u64, frames: &[Value]) -> Value {
    json!({"action": action, "addr": BASE + at, "size": size, "stream": 0, "time_us": 1000 + at, "frames": frames})
}

/// Returns a segment whose first KiB is a block.
fn segment(frames: &[Value]) -> Value {
    json!({
        "device": 0, "address": BASE, "total_size": SEGMENT, "allocated_size": 1024, "active_size": 1024,
        "requested_size": 1000, "stream": 0, "segment_type": "small", "segment_pool_id": [0, 0], "is_expandable": false,
        "frames": frames, "blocks": [
            {"address": BASE, "size": 1024, "requested_size": 1000, "state": "active_allocated", "frames": frames},
            {"address": BASE + 1024, "size": SEGMENT - 1024, "requested_size": 0, "state": "inactive", "frames": []},
        ],
    })
}

fn file(segments: &[Value], trace: &[Value]) -> Value {
    json!({"segments": segments, "device_traces": [trace]})
}

/// A private pool that no block uses, and a block in no segment.
pub(crate) fn odd() -> Value {
    let mut idle = segment(&[]);
    idle["segment_pool_id"] = json!([3, 0]);
    idle["blocks"][0]["state"] = "inactive".into();
    file(&[idle], &[event("alloc", 8 * SEGMENT, 512, &[frame("step", "/a/train.py", 3)])])
}

/// Writes a snapshot as JSON, and returns its name.
fn write(folder: &Path, name: &str, json: &Value) -> String {
    let path = folder.join(name);
    fs::write(&path, json.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Every backslash is a separator, wherever folders or names of files matter.
#[test]
fn paths_of_windows_have_folders() {
    let torch = frame("forward", r"C:\env\Lib\site-packages\torch\nn\modules\linear.py", 125);
    let call = frame("_call_impl", r"C:\env\Lib\site-packages\torch\nn\modules\module.py", 1773);
    let mine = frame("step", r"D:\secret\project\train.py", 7);
    let folder = tempfile::tempdir().unwrap();
    let stack = [torch.clone(), call.clone(), mine];
    let trace = [event("segment_alloc", 0, SEGMENT, &[torch, call]), event("alloc", 0, 1000, &stack)];
    let path = write(folder.path(), "windows.json", &file(&[segment(&stack)], &trace));
    let top = answer(&["top", &path]);
    assert!(top.contains("forward (linear.py:125)") && top.contains("step (train.py:7)"), "{top}");
    assert!(!top.contains('\\') && !top.contains("_call_impl"), "{top}");
    assert!(answer(&["owners", &path]).contains("pytorch"), "the owner is the package");
    let file = answer(&["top", "--by", "file", &path]);
    assert!(file.contains(r"torch\nn\modules\linear.py"), "{file}");
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    answer(&["convert", "--to", "folded", &path, "-o", out]);
    assert_eq!(fs::read_to_string(out).unwrap(), "train.py:7:step;linear.py:125:forward 1000\n");
    let folded = answer(&["memory", "--folded", &path]);
    assert!(folded.contains(";linear.py:125:forward") && !folded.contains('\\'), "{folded}");
    answer(&["slim", "--anonymise", &path, "-o", out]);
    let hidden = serde_json::to_string(&pickle::load(out).unwrap()).unwrap();
    for name in ["secret", "project", "train", "env"] {
        assert!(!hidden.contains(name), "{name}: {hidden}");
    }
    assert_eq!(answer(&["top", out]).matches(".py:").count(), top.matches(".py:").count(), "{hidden}");
    let kept = |option: &str| {
        answer(&["slim", option, &path, "-o", out]);
        answer(&["memory", "--folded", out])
    };
    assert!(!kept("--drop-path=torch/nn").contains("linear.py"));
    let stripped = kept(r"--strip-prefix=D:\secret");
    assert!(stripped.contains("train.py:7:step"), "{stripped}");
}

/// PyTorch writes 2^64 - 1 for a line that it does not know.
#[test]
fn a_line_that_is_not_known_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let stack = [frame("generated", "/tmp/torchinductor/cab.py", u64::MAX)];
    let trace = [event("segment_alloc", 0, SEGMENT, &stack), event("alloc", 0, 1000, &stack)];
    let path = write(folder.path(), "line.json", &file(&[segment(&stack)], &trace));
    let top = answer(&["top", &path]);
    assert!(top.contains("generated (cab.py)\n"), "{top}");
    // Nine bytes in a pickle, on which older viewers throw.
    let bytes =
        pickle::to_vec(&serde_json::from_value::<memreel_snapshot::Snapshot>(file(&[], &trace)).unwrap());
    let line = b"\x8c\x04line";
    let at = bytes.windows(line.len()).position(|part| part == line).unwrap();
    let zero = at + bytes[at..].windows(2).position(|part| part == b"K\0").unwrap();
    let long = [&bytes[..zero], b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0", &bytes[zero + 2..]].concat();
    let path = folder.path().join("line.pickle");
    fs::write(&path, long).unwrap();
    let path = path.to_str().unwrap();
    assert!(answer(&["top", path]).contains("generated (cab.py)\n"));
    let found = stdout(&run(&["validate", path])).to_owned();
    assert!(found.contains(": W4 ") && found.contains("2^64 - 1"), "{found}");
}

#[test]
fn blocks_in_no_segment_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "odd.json", &odd());
    let at = answer(&["at", &path]);
    assert!(
        at.contains("512 B in use in 1 block") && at.contains("in no segment of the file: 512 B in 1 block"),
        "{at}"
    );
    assert!(at.contains("step (train.py:3)"), "{at}");
    let json: Value = serde_json::from_str(&answer(&["at", "--json", &path])).unwrap();
    assert_eq!(json["outside_segments"][0]["requested_bytes"], 512);
}

/// MLX writes allocations and completed frees, and no segments.
#[test]
fn a_trace_without_segments_answers_what_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let stack = [frame("step", "/a/train.py", 3)];
    let mut trace: Vec<Value> = (0..8).map(|at| event("alloc", at * 4096, 1000 + at, &stack)).collect();
    trace.extend((0..3).map(|at| event("free_completed", at * 4096, 1000 + at, &stack)));
    trace.iter_mut().zip(1000..).for_each(|(event, time_us)| event["time_us"] = time_us.into());
    let path = write(folder.path(), "mlx.json", &file(&[], &trace));
    for (words, part) in [
        (&["top"][..], "100.0 %"),
        (&["leaks"], "step (train.py:3)"),
        (&["timeline"], "11 events"),
        (&["at", "peak"], "7.84 KiB in use in 8 blocks"),
    ] {
        let words = [words, &[&path]].concat();
        let output = run(&words);
        let text = stdout(&output);
        assert!(output.status.success() && text.contains(part), "{words:?}: {text}");
        assert!(text.contains("there are no segments, as in traces of an allocator without them"), "{text}");
    }
}

/// The first line says what was missing, and a gate does not pass.
#[test]
fn a_file_without_a_history_says_which_call_was_missing() {
    let stack = [frame("step", "/a/train.py", 3)];
    let folder = tempfile::tempdir().unwrap();
    let one = event("segment_free", 8 * SEGMENT, 512, &[]);
    let cases = [
        ("unused", json!({"segments": [], "device_traces": [[], []]}), "had not used the device"),
        ("none", file(&[segment(&[])], &[]), "no history: call torch.cuda.memory._record_memory_history()"),
        ("state", file(&[segment(&stack)], &[]), "no events: recording was stopped"),
        ("one", file(&[segment(&[])], &[one]), "one event: recording was switched on with"),
        ("list", json!([segment(&[])]), "no history: the file only has segments"),
    ];
    for (name, json, part) in cases {
        let path = write(folder.path(), &format!("{name}.json"), &json);
        let output = run(&[&path]);
        let whole = stdout(&output).split("\n\n").next().unwrap().replace("\n  ", " ");
        assert!(whole.contains(part), "{name}: {whole}");
        assert_eq!(whole.contains("answer for the end"), name != "unused", "{name}: {whole}");
        let top = stdout(&run(&["top", &path])).replace("\n  ", " ");
        assert!(top.contains(part), "{name}: {top}");
        let gate = |options: &[&str]| run(&[&["gate", "--max-peak", "1GiB", &path][..], options].concat());
        let (refused, allowed) = (gate(&[]), gate(&["--allow-no-history"]));
        assert_eq!((refused.status.code(), allowed.status.code()), (Some(4), Some(0)), "{name}");
        assert!(stdout(&refused).replace("\n        ", " ").contains(part), "{}", stdout(&refused));
    }
    let empty = write(folder.path(), "empty.json", &json!({}));
    let output = run(&[&empty]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("a backend that records no memory"), "{}", stderr(&output));
}

/// A page of PyTorch's `trace_plot` is the snapshot in it, for every command.
#[test]
fn a_page_is_the_snapshot_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = fixture("torch-2.11/snapshots/oom.pickle");
    let (name, bytes) = (path.to_str().unwrap(), fs::read(&path).unwrap());
    let text = BASE64_STANDARD.encode([&bytes[..], b"\0\0"].concat());
    let page = format!(
        "<!DOCTYPE html>\n<html><body>\n<script type=\"module\">\nconst local_files = [{{\"name\": \"snapshot.pickle\", \
         \"base64\": \"{text}\"}}]\n</script></body></html>\n"
    );
    for (ending, before) in [("html", ""), ("htm", "\n\u{feff}")] {
        let html = folder.path().join(format!("snapshot.{ending}"));
        fs::write(&html, format!("{before}{page}")).unwrap();
        let html = html.to_str().unwrap();
        for words in
            [&["top"][..], &["oom"], &["validate"], &["trace"], &["slim", "--depth", "2"], &["summary"]]
        {
            let of = |file: &str| stdout(&run(&[words, &[file]].concat())).replace(file, "FILE");
            // Their lengths are in the lines of slim.
            assert_eq!(of(html), of(name), "{words:?}");
        }
        answer(&["fix", html, "-o", folder.path().join("fixed.pickle").to_str().unwrap()]);
        assert_eq!(pickle::load(folder.path().join("fixed.pickle")).unwrap().n_events(), 31);
    }
    let cut = folder.path().join("cut.html");
    fs::write(&cut, "<html></html>").unwrap();
    let output = run(&["top", cut.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("a web page without one"), "{}", stderr(&output));
}

/// The program's text has no line of the allocator's, and a dictionary has keys.
#[test]
fn metadata_is_the_programs() {
    let folder = tempfile::tempdir().unwrap();
    let stack = [frame("step", "/a/train.py", 3)];
    let texts = ["load", "load\nmallocWithAddress", r#"{"step":3,"phase":"forward"}"#];
    let trace: Vec<Value> = (0..)
        .zip(texts)
        .map(|(at, text)| {
            let mut event = event("alloc", at * 4096, 1024, &stack);
            event["user_metadata"] = text.into();
            event
        })
        .collect();
    let path = write(folder.path(), "metadata.json", &file(&[], &trace));
    let top = answer(&["top", "--by", "scope", &path]);
    assert!(top.contains("2.00 KiB      2  load\n") && !top.contains("mallocWithAddress"), "{top}");
    let lines = answer(&["trace", "--json", &path]);
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!(last["metadata"], json!({"step": 3, "phase": "forward"}));
    assert_eq!(lines.matches("metadata\":").count(), 1);
}

/// Other accelerators have the same keys and other names; later releases have other settings.
#[test]
fn other_devices_and_later_settings_are_read_without_complaint() {
    let folder = tempfile::tempdir().unwrap();
    for (kind, function) in [
        (
            "xpu",
            "c10::xpu::XPUCachingAllocator::Native::DeviceCachingAllocator::malloc(unsigned long, sycl::queue&)",
        ),
        ("npu", "c10_npu::NPUCachingAllocator::NpuCachingAllocator::malloc(void**, int, unsigned long)"),
        ("mlu", "torch_mlu::MLUCachingAllocator::malloc(void**, int, unsigned long)"),
    ] {
        let stack = [frame(function, "??", 0), frame("step", "/a/train.py", 3)];
        let trace = [event("segment_alloc", 0, SEGMENT, &stack), event("alloc", 0, 1000, &stack)];
        let mut json = file(&[segment(&stack)], &trace);
        json["allocator_settings"] = json!({
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,pinned_max_round_threshold_mb:1,pinned_max_cached_size_mb:1,\
                                        expandable_segments_reserve_by_class:[a:0.5,b:40G],throw_on_cudamalloc_oom:True",
            "max_split_size": -1, "expandable_segments": false, "pinned_free_catch_all": true, "num_oom_rejections": 3,
            "page_size": "1g", "made_up": [1, {"two": null}],
            "roundup_power2_divisions": {"1": 0},
        });
        let path = write(folder.path(), &format!("{kind}.json"), &json);
        for words in [&["summary"][..], &["top"], &["owners"], &["fragmentation"], &["replay"]] {
            let output = run(&[words, &["--device", &format!("{kind}:0"), &path]].concat());
            assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{kind} {words:?}");
        }
        assert!(answer(&["owners", &path]).contains("pytorch"), "{kind}");
        assert!(answer(&["top", &path]).contains("  step (train.py:3)\n"), "{kind}");
        let found = run(&["validate", &path]);
        assert!(found.status.success(), "{kind}: {}", stdout(&found));
    }
    let device = run(&["top", "--device", "XPU 0", "x.pickle"]);
    assert!(stderr(&device).contains("is not a device"));
}

#[test]
fn a_pool_that_nobody_uses_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "odd.json", &odd());
    let why = "pool (3, 0): 0 B in use, 2.00 MiB reserved, unused: a failed capture?";
    for words in [&["summary"][..], &["fragmentation"]] {
        let text = stdout(&run(&[words, &[&path]].concat())).replace("\n  ", " ");
        assert!(text.contains(why), "{words:?}: {text}");
    }
    let json: Value = serde_json::from_str(&answer(&["fragmentation", "--json", &path])).unwrap();
    assert_eq!(json["idle_pools"], json!([{"pool_id": [3, 0], "reserved_bytes": SEGMENT, "segments": 1}]));
}

/// A small file may say much: each event has a stack of its own in full.
#[test]
fn a_small_file_makes_no_huge_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let name = "n".repeat(4000);
    let frames: Vec<Value> = (0..500).map(|line| frame(&name, "a.py", line)).collect();
    let stack = frames.as_slice();
    // As JSON, 2 MB for each of these events; as a pickle, the stack once.
    let trace: Vec<Value> = (0..2).map(|n| event("alloc", 1024 * n, 1000, stack)).collect();
    let mut snapshot: memreel_snapshot::Snapshot = serde_json::from_value(file(&[], &trace)).unwrap();
    let one = snapshot.device_traces[0][1];
    snapshot.device_traces[0].extend(iter::repeat_n(one, 2000));
    pickle::save(&snapshot, path("small.pickle")).unwrap();
    assert!(fs::metadata(path("small.pickle")).unwrap().len() < 1_000_000);
    let to_null = |options: &[&str]| {
        run(&[&["convert", "--to", "json", "-o", "/dev/null", &path("small.pickle")][..], options].concat())
    };
    let refused = to_null(&[]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(stderr(&refused).contains("use --allow-large to write it anyway"), "{}", stderr(&refused));
    assert_eq!(to_null(&["--allow-large"]).status.code(), Some(0));
}
