//! Logs and profiles on the command line: `oom` of a log, `--log` beside a snapshot, a log named to other commands, statuses.

use std::{fs, process::Output};

use serde_json::Value;

use crate::support::{memreel, run};

fn both(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// The message of a rank on a device of 8 GiB, of which another process has 1 GiB.
fn message(rank: u16, asked: &str, unallocated: &str) -> String {
    format!(
        "[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}. GPU {rank} has a total capacity of \
         8.00 GiB of which 512.00 MiB is free. Process 7 has 1.00 GiB memory in use. Including non-PyTorch memory, this process \
         has 6.50 GiB memory in use. Of the allocated memory 3.00 GiB is allocated by PyTorch, and {unallocated} is reserved by \
         PyTorch but unallocated.\n"
    )
}

#[test]
fn a_log_has_the_answer_of_its_last_message() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("train.log");
    let text =
        format!("step 1\n{}{}", message(1, "1.00 GiB", "200.00 MiB"), message(0, "2.00 GiB", "3.00 GiB"));
    fs::write(&log, &text).unwrap();
    let log = log.to_str().unwrap();
    let output = run(&["oom", log]);
    let (out, err) = both(&output);
    assert_eq!((output.status.code(), &*err), (Some(1), ""), "{out}");
    for part in [
        "a 3-line log with 2 out-of-memory messages from PyTorch; the first is on line 2",
        "out of memory (cause: fragmented): a request for 2.00 GiB failed on device 0, line 3, rank 0",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "rank 1, device 1, line 2: 1.00 GiB requested (cause: occupied)",
        "the message has the format of PyTorch 2.5 or later",
        "torch.cuda.memory._record_memory_history()",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    let (out, _) = both(&run(&["oom", "--device", "1", "--json", log]));
    let line: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&line["device"], &line["message"]["line"], &line["verdict"]),
        (&1.into(), &2.into(), &"occupied".into())
    );
    let output = run(&["oom", "--device", "5", log]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    // From standard input, the same.
    let output = memreel(&["oom", "-"]).stdin(fs::File::open(log).unwrap()).output().unwrap();
    assert!(
        output.status.code() == Some(1) && both(&output).0.contains("out of memory (cause: fragmented)"),
        "{output:?}"
    );
    // The file alone has the same answer, beside a snapshot too; other commands say what it is.
    let answer = both(&run(&["oom", log])).0;
    for command in [&[][..], &["summary"]] {
        let output = run(&[command, &[log]].concat());
        assert_eq!((output.status.code(), both(&output).0), (Some(0), answer.clone()), "{command:?}");
    }
    let snapshot = folder.path().join("empty.json");
    fs::write(&snapshot, r#"{"segments": [], "device_traces": [[]]}"#).unwrap();
    let output = run(&["summary", log, snapshot.to_str().unwrap()]);
    let (out, _) = both(&output);
    assert!(
        output.status.code() == Some(0) && out.starts_with(&answer) && out.contains("empty.json"),
        "{out}"
    );
    let output = run(&["top", log]);
    let (_, err) = both(&output);
    let is_named = err.contains("it has 2 out-of-memory messages") && err.contains("memreel oom");
    assert!(output.status.code() == Some(3) && is_named, "{err}");
}

#[test]
fn a_log_names_who_asked_and_is_read_in_utf_16() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("train.log");
    let text = format!(
        "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/home/me/train.py\", line 40, in main\n[rank0]:     \
         step()\n[rank0]:   File \"/usr/lib/python3/site-packages/torch/nn/linear.py\", line 7, in forward\n{}",
        message(0, "2.00 GiB", "3.00 GiB"),
    );
    let units = "\u{feff}".encode_utf16().chain(text.encode_utf16());
    fs::write(&log, units.flat_map(u16::to_le_bytes).collect::<Vec<u8>>()).unwrap();
    let log = log.to_str().unwrap();
    let (out, err) = both(&run(&["oom", log]));
    assert!(out.contains("requested by forward (linear.py:7) ← main (train.py:40)"), "{out}{err}");
    let (out, _) = both(&run(&["oom", "--json", log]));
    let line: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&line["message"]["calls"][1]["name"], &line["message"]["calls"][1]["line"]),
        (&"main".into(), &40.into())
    );
}

/// Where one line has the messages of two devices, only the last is explained above.
#[test]
fn each_message_of_a_line_has_its_cause() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("one_line.log");
    let bare = |rank, asked, unallocated| {
        let text = message(rank, asked, unallocated);
        text.trim_end().split_once("]: ").unwrap().1.to_owned()
    };
    let text = [bare(0, "1.00 GiB", "200.00 MiB"), bare(1, "2.00 GiB", "3.00 GiB")].join(" ");
    fs::write(&log, text).unwrap();
    let (out, _) = both(&run(&["oom", log.to_str().unwrap()]));
    assert!(
        out.contains("device 0, line 1: 1.00 GiB requested (cause: occupied); 1 message, on line 1\n"),
        "{out}"
    );
    assert!(
        out.contains(
            "device 1, line 1: 2.00 GiB requested (cause: fragmented); 1 message, on line 1, explained"
        ),
        "{out}"
    );
}

#[test]
fn a_message_without_figures_has_a_next_step() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let some = file("some.log", "RESOURCE_EXHAUSTED: Out of memory allocating 1073741824 bytes.\n");
    let (out, _) = both(&run(&["oom", &some]));
    for part in ["lacks the figures", "jax.checkpoint", "save_device_memory_profile"] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    let none = file("none.log", "a\nRESOURCE_EXHAUSTED: Out of memory.\n");
    let output = run(&["oom", &none]);
    let (_, err) = both(&output);
    assert!(output.status.code() == Some(3), "{output:?}");
    assert!(
        err.contains("line 2 reports a failure without") && err.contains("save_device_memory_profile"),
        "{err}"
    );
}

#[test]
fn a_text_without_a_message_says_what_was_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    for (log, parts) in [
        (
            file("plain.log", "step 1\nstep 2\n"),
            &["no failed request in 2 lines", "looked for", "RESOURCE_EXHAUSTED"][..],
        ),
        (
            file("bare.log", "a\nRuntimeError: CUDA error: out of memory\n"),
            &["line 2", "without the figures", "memreel record"],
        ),
        (
            file("pointer.pickle", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
            &["git lfs pull"],
        ),
        (
            file("summary.txt", "|====|\n|  PyTorch CUDA memory summary, device ID 0 |\n"),
            &["memory_summary()"],
        ),
        (file("summary.txt", &format!("|{}|\n", "=".repeat(75))), &["memory_summary()", "_dump_snapshot"]),
        (file("stats.txt", "OrderedDict([('active.all.allocated', 1)])\n"), &["memory_stats()"]),
        (
            file("rmm.csv", "Thread,Time,Action,Pointer,Size,Stream\n1,2,allocate,0x1,2,0x1\n"),
            &["RMM", "memreel record"],
        ),
        (file("jemalloc.heap", "heap_v2/524288\n  t*: 1: 2 [0: 0]\n"), &["jemalloc"]),
    ] {
        let output = run(&["oom", &log]);
        let (out, err) = both(&output);
        assert!(output.status.code() == Some(3) && out.is_empty(), "{log}: {out}");
        parts.iter().for_each(|part| assert!(err.contains(part), "{log}: {part}: {err}"));
        assert_eq!(err.lines().count(), 1, "{log}: {err}");
    }
}

#[test]
fn a_log_beside_a_snapshot_has_the_size_of_the_device() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("train.log");
    let trace = serde_json::json!([
        {"action": "segment_alloc", "addr": 1 << 30, "size": 1_u64 << 30, "stream": 0, "time_us": 1},
        {"action": "alloc", "addr": 1 << 30, "size": 1_u64 << 30, "stream": 0, "time_us": 2},
        {"action": "oom", "device_free": 1 << 29, "size": 2_u64 << 30, "stream": 0, "time_us": 3},
    ]);
    let snapshot = folder.path().join("oom.json");
    fs::write(&snapshot, serde_json::json!({"segments": [], "device_traces": [trace]}).to_string()).unwrap();
    let (snapshot, log_name) = (snapshot.to_str().unwrap(), log.to_str().unwrap());
    fs::write(&log, message(0, "2.00 GiB", "0 bytes")).unwrap();
    let (alone, _) = both(&run(&["oom", snapshot]));
    assert!(alone.contains("out of memory (cause: full)") && !alone.contains("used elsewhere"), "{alone}");
    let (with, err) = both(&run(&["oom", snapshot, "--log", log_name]));
    assert!(
        with.contains("out of memory (cause: occupied)") && with.contains("6.50 GiB of 8.00 GiB"),
        "{with}{err}"
    );
    assert!(with.contains("process 7 has 1.00 GiB"), "{with}");
    let of = |words: &[&str]| serde_json::from_str::<Value>(&both(&run(words)).0).unwrap()["message"].take();
    let beside = of(&["oom", "--json", snapshot, "--log", log_name]);
    assert_eq!(beside["others"], serde_json::json!([{"pid": 7, "bytes": 1_u64 << 30}]));
    assert_eq!(of(&["oom", "--json", snapshot]), Value::Null);
    // A device that is too small for what the file has is another.
    fs::write(&log, message(0, "2.00 GiB", "0 bytes").replace("8.00 GiB", "1.00 GiB")).unwrap();
    let (other, _) = both(&run(&["oom", snapshot, "--log", log_name]));
    assert!(
        other.contains("is about another device") && other.contains("out of memory (cause: full)"),
        "{other}"
    );
    for (log, status) in [("missing.log", 3), (snapshot, 3)] {
        assert_eq!(run(&["oom", snapshot, "--log", log]).status.code(), Some(status), "{log}");
    }
}
