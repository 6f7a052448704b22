//! `memreel gate`: its limits, exit statuses and reports.

#![forbid(unsafe_code)]

use std::fs;

use memreel::{
    Address, DeviceId, Reel, StreamId,
    recorder::{Context, Recorder, Recording},
    snapshot::{self, Dialect},
};
use memreel_snapshot::{Action, pickle};
use serde_json::{Value, json};

use crate::support::{answer, fixture, run, stderr, stdout};

#[test]
fn exit_statuses_and_reports() {
    let folder = tempfile::tempdir().unwrap();
    let junit = folder.path().join("gate.xml");
    let (xml, file) = (junit.to_str().unwrap(), "torch-2.11/snapshots/oom_fragment.pickle");
    let status = |arguments: &[&str]| run(&[&["gate"], arguments, &[file]].concat()).status.code();
    assert_eq!(
        status(&["--max-peak", "1.85GiB", "--max-live", "2GiB", "--max-fragmentation", "9%"]),
        Some(0)
    );
    assert_eq!(status(&["--max-peak", "1.5GiB", "--junit", xml]), Some(4));
    let report = fs::read_to_string(&junit).unwrap();
    assert!(report.contains(
        "<testsuite name=\"torch-2.11/snapshots/oom_fragment.pickle, device 0\" tests=\"1\" failures=\"1\">"
    ));
    assert!(report.contains("<failure message=\"peak is 1.84 GiB, "), "{report}");
    assert!(report.contains(" over the limit of 1.50 GiB; most is held by "), "{report}");
    // A link stays one, and an input what it is.
    #[cfg(unix)]
    {
        let link = folder.path().join("link.xml");
        std::os::unix::fs::symlink(&junit, &link).unwrap();
        assert_eq!(status(&["--max-peak", "9GiB", "--junit", link.to_str().unwrap()]), Some(0));
        assert!(link.is_symlink() && fs::read_to_string(&junit).unwrap().contains("failures=\"0\""));
    }
    let model = folder.path().join("model.json");
    fs::write(&model, "{\"segments\": [], \"device_traces\": []}").unwrap();
    let itself =
        run(&["gate", "--max-peak", "1GiB", "--junit", model.to_str().unwrap(), model.to_str().unwrap()]);
    assert_eq!(itself.status.code(), Some(2), "{}", stderr(&itself));
    assert!(stderr(&itself).contains("would be overwritten") && fs::read(&model).unwrap()[0] == b'{');
    // A file that cannot be read leaves no report of another run, and no green one.
    assert_eq!(run(&["gate", "--max-peak", "1GiB", "--junit", xml, "missing.pickle"]).status.code(), Some(3));
    assert!(!junit.exists());
    let partly = run(&["gate", "--max-peak", "9GiB", "--junit", xml, file, "missing.pickle"]);
    assert_eq!(partly.status.code(), Some(3));
    let report = fs::read_to_string(&junit).unwrap();
    assert!(report.contains("failures=\"0\"") && report.contains("a file gave no result"), "{report}");
    assert_eq!(status(&["--max-fragmentation", "7%"]), Some(4));
    // Measured between the allocation of a segment and that of its block, 68.1 % would be wasted.
    let healthy = "torch-2.11/snapshots/graph_private_pools.pickle";
    assert_eq!(run(&["gate", "--max-fragmentation", "20%", healthy]).status.code(), Some(0));
    assert_eq!(["0", "0B", "0 GiB"].map(|none| status(&["--max-live", none])), [Some(4); 3]);
    assert_eq!(status(&["--baseline", file]), Some(0));
    let grown = run(&["gate", "--baseline", "torch-2.11/snapshots/oom.pickle", "--tolerance", "2%", file]);
    assert_eq!(grown.status.code(), Some(4));
    // What it prints to ask next is a command that answers.
    let next = stdout(&grown).split_once("see what grew: memreel ").unwrap().1;
    let words: Vec<&str> = next.split_whitespace().filter(|word| *word != "\\").collect();
    assert_eq!(words[..3], ["diff", "--at", "peak"]);
    assert!(answer(&words).contains("added"), "{next}");
    // Memory that was freed in the baseline is compared at the end.
    let folder = tempfile::tempdir().unwrap();
    let [before, after] = [false, true].map(|is_kept| {
        let reel = Reel::builder().history(Recording::all()).build().unwrap();
        let block = reel.alloc(4096).unwrap();
        let _kept = is_kept.then_some(block);
        let path = folder.path().join(format!("kept-{is_kept}.pickle"));
        reel.save(&path).unwrap();
        path.into_os_string().into_string().unwrap()
    });
    let leaky = run(&["gate", "--baseline", &before, &after]);
    assert!(
        stdout(&leaky).contains("live is 4.00 KiB") && stdout(&leaky).contains("memreel diff --at end"),
        "{}",
        stdout(&leaky)
    );
    assert_eq!(status(&["--baseline", "torch-2.11/snapshots/oom.pickle", "--tolerance", "200%"]), Some(0));
    assert_eq!(run(&["gate", "--max-peak", "20GiB", "--strict", healthy]).status.code(), Some(0));
    let failed = run(&["gate", "--max-peak", "9GiB", "--strict", file]);
    assert_eq!(failed.status.code(), Some(4), "a request failed");
    assert!(
        stdout(&failed).contains("note: 1 request failed, so the program may need more"),
        "{}",
        stdout(&failed)
    );
    assert_eq!(status(&[]), Some(2));
    assert_eq!(status(&["--baseline", "missing.pickle"]), Some(3));
    assert_eq!(status(&["--update-baseline"]), Some(2), "there is no file to write");
    let wrapped = "torch-2.11/snapshots/expandable_wrapped_ring.pickle";
    assert_eq!(run(&["gate", "--max-peak", "9GiB", wrapped]).status.code(), Some(0));
    assert_eq!(run(&["gate", "--max-peak", "9GiB", "--strict", wrapped]).status.code(), Some(4));
    assert_eq!(status(&["--baseline", wrapped, "--tolerance", "900%"]), Some(0));
    assert_eq!(status(&["--baseline", wrapped, "--tolerance", "900%", "--strict"]), Some(4));
    assert_eq!(run(&["diff", "-", "-"]).status.code(), Some(2), "one standard input is not two files");
}

/// A baseline is written by request alone, and only of a run that keeps the other limits.
#[test]
fn a_baseline_is_written_by_request() {
    let folder = tempfile::tempdir().unwrap();
    let (path, file) = (folder.path().join("baseline.pickle"), "torch-2.11/snapshots/oom_fragment.pickle");
    let baseline = path.to_str().unwrap();
    let gate = |arguments: &[&str]| run(&[&["gate", "--baseline", baseline], arguments].concat());
    let missing = gate(&[file]);
    assert_eq!(missing.status.code(), Some(3));
    let why = stderr(&missing);
    assert!(
        why.contains("baseline not found; create one from a run that you trust with --update-baseline"),
        "{why}"
    );
    assert!(!path.exists());
    let over = gate(&["--update-baseline", "--max-peak", "1GiB", file]);
    assert!(over.status.code() == Some(4) && !path.exists());
    let no_history = gate(&["--update-baseline", "torch-2.11/snapshots/no_history.pickle"]);
    assert!(no_history.status.code() == Some(4) && !path.exists());
    let several = gate(&["--update-baseline", file, file]);
    assert!(several.status.code() == Some(2) && !path.exists());
    let written = gate(&["--update-baseline", "--max-peak", "3GiB", file]);
    assert_eq!(written.status.code(), Some(0), "{}", stderr(&written));
    assert!(stdout(&written).ends_with(&format!("wrote {baseline}; commit it\n")));
    assert_eq!(gate(&[file]).status.code(), Some(0));
    // It is the run without deep stacks, and replaces an older one.
    assert_eq!(gate(&["--update-baseline", "torch-2.11/snapshots/oom.pickle"]).status.code(), Some(0));
    assert_eq!(gate(&[file]).status.code(), Some(4));
    // A baseline without a history measured nothing either.
    let none =
        ["gate", "--baseline", "torch-2.11/snapshots/no_history.pickle", "--tolerance", "99999%", file];
    let output = run(&none);
    assert!(
        output.status.code() == Some(4) && stdout(&output).contains("baseline: no history"),
        "{}",
        stdout(&output)
    );
    assert_eq!(run(&[&none[..], &["--allow-no-history"]].concat()).status.code(), Some(0));
}

/// A limit of a scope is about its moments; a scope that is not there fails.
#[test]
fn limits_by_scope() {
    const MIB: u64 = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let (path, xml) = (folder.path().join("scopes.pickle"), folder.path().join("gate.xml"));
    let reel = Reel::builder().history(Recording::all().context(Context::None)).build().unwrap();
    {
        let _forward = reel.scope("forward");
        drop(reel.alloc(4 * MIB).unwrap());
    }
    drop(reel.alloc(32 * MIB).unwrap());
    reel.save(&path).unwrap();
    let [file, xml] = [&path, &xml].map(|path| path.to_str().unwrap());
    let gate = |limits: &[&str]| {
        let words: Vec<&str> = limits.iter().flat_map(|limit| ["--max-peak", limit]).collect();
        run(&[&["gate", "--junit", xml], &words[..], &[file]].concat())
    };
    assert_eq!(gate(&["32MiB", "forward=4MiB"]).status.code(), Some(0));
    let over = gate(&["1GiB", "forward=3MiB"]);
    assert_eq!(over.status.code(), Some(4));
    assert!(
        stdout(&over)
            .contains("FAILED  peak in scope forward is 4.00 MiB, 1.00 MiB over the limit of 3.00 MiB"),
        "{}",
        stdout(&over)
    );
    assert!(fs::read_to_string(xml).unwrap().contains("name=\"peak in scope forward\"><failure"));
    assert_eq!(gate(&["1GiB", "31MiB"]).status.code(), Some(4), "every limit holds");
    let misspelt = gate(&["forwrad=1GiB"]);
    assert!(misspelt.status.code() == Some(4) && stdout(&misspelt).contains("there is no scope \"forwrad\""));
    assert_eq!(gate(&["=1GiB"]).status.code(), Some(2));
}

#[test]
fn a_baseline_without_the_device_fails_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one.pickle"), folder.path().join("two.pickle"));
    let mut snapshot = crate::recorded::recorded(1, 200);
    memreel_snapshot::pickle::save(&snapshot, &two).unwrap();
    snapshot.segments.retain(|segment| segment.device == memreel_snapshot::DeviceId(0));
    snapshot.device_traces.truncate(1);
    memreel_snapshot::pickle::save(&snapshot, &one).unwrap();
    let [one, two] = [&one, &two].map(|path| path.to_str().unwrap());
    let xml = folder.path().join("gate.xml");
    let arguments = ["gate", "--baseline", one, "--junit", xml.to_str().unwrap(), two];
    let output = run(&arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(4), "{text}");
    let why = format!("the baseline {one} has no device 1; its devices with memory: 0");
    assert!(text.contains(&format!("FAILED  {why}\n")) && !text.contains("the limit of 0 B"), "{text}");
    let report = fs::read_to_string(&xml).unwrap();
    assert!(report.contains(&format!("name=\"baseline\"><failure message=\"{why}\"/>")), "{report}");
    let json = String::from_utf8(run(&["gate", "--json", "--baseline", one, two]).stdout).unwrap();
    let answers: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.iter().map(|answer| answer["is_passed"] == true).collect::<Vec<_>>(), [true, false]);
    assert_eq!(answers[1]["warnings"][0], *why);
    assert_eq!(run(&["gate", "--baseline", one, "--device", "0", two]).status.code(), Some(0));
    assert_eq!(run(&["gate", "--baseline", two, one]).status.code(), Some(0));
}

#[test]
fn decimal_and_binary_units_differ() {
    let file = "torch-2.11/snapshots/oom_fragment.pickle";
    // 1.84 GiB is 1.98 GB.
    let status = |most: &str| run(&["gate", "--max-peak", most, file]).status.code();
    assert_eq!(["1.9GiB", "1.9G", "1.9GB", "2GB"].map(status), [Some(0), Some(0), Some(4), Some(0)]);
    for command in ["gate", "replay"] {
        assert!(answer(&[command, "--help"]).contains("kB, MB and GB are powers of 1000"), "{command}");
    }
}

/// What a file cannot know fails `--strict`, and is compared with a note without it.
#[test]
fn strict_fails_a_history_that_is_not_whole() {
    const MIB: u64 = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let record = |name: &str, history: Recording| {
        let reel = Reel::builder().history(history.context(Context::None)).build().unwrap();
        drop((reel.alloc(100 * MIB).unwrap(), reel.alloc(1000).unwrap()));
        reel.empty_cache().unwrap();
        drop(reel.alloc(1000).unwrap());
        reel.empty_cache().unwrap();
        reel.save(path(name)).unwrap();
    };
    record("whole.pickle", Recording::all());
    // Everything was freed, so that nothing is live where the ring begins.
    record("lost.pickle", Recording::all().max_entries(5));
    record("skipped.pickle", Recording::all().skip_actions([Action::FreeCompleted]));
    answer(&["slim", "--min-size", "1MiB", &path("whole.pickle"), "-o", &path("slim.pickle")]);
    let gate = |arguments: &[&str], name: &str| {
        let output = run(&[&["gate", "--max-peak", "1GiB"], arguments, &[&path(name)]].concat());
        (output.status.code().unwrap(), stdout(&output).to_owned())
    };
    assert_eq!(gate(&["--strict"], "whole.pickle").0, 0, "{}", gate(&["--strict"], "whole.pickle").1);
    for (name, why) in [
        ("lost.pickle", "older entries were lost"),
        ("skipped.pickle", "(skip_actions, min_size, sample_every), added or dropped events"),
        ("slim.pickle", "allocations below 1048576 bytes have no events"),
    ] {
        let (status, text) = gate(&["--strict"], name);
        assert!(status == 4 && text.contains(why) && text.contains("(--strict)"), "{name}: {status} {text}");
        // What the ring lost may have been any peak.
        let is_partial = name == "lost.pickle";
        let (status, text) = gate(&[], name);
        assert!(text.contains(why), "{name}: {status} {text}");
        assert_eq!(
            (status, text.contains("FAILED  peak is only known of the last 5 events, because")),
            if is_partial { (4, true) } else { (0, false) },
            "{name}: {text}"
        );
        assert_eq!(gate(&["--allow-partial"], name).0, 0, "{name}");
        let line: Value = serde_json::from_str(&gate(&["--strict", "--json"], name).1).unwrap();
        assert_eq!(line["is_passed"], false, "{name}");
        let top: Value = serde_json::from_str(&answer(&["top", "--json", &path(name)])).unwrap();
        assert_eq!(top["is_whole"], false, "{name}");
    }
    assert_eq!(
        gate(&["--strict", "--baseline", &path("slim.pickle"), "--tolerance", "999%"], "whole.pickle").0,
        4
    );
}

/// A time of 0 is an event that could not be dated; a microsecond back is another processor's clock.
#[test]
fn undated_events_and_small_steps_back_are_no_disorder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("times.json");
    let file = path.to_str().unwrap();
    let asked = |time_us: u64| {
        let entry = |action: &str, addr: u64, size: u64, time_us: u64| json!({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time_us});
        let trace = [
            entry("segment_alloc", 1 << 30, 2 << 20, 1_700_000_000_000_000),
            entry("alloc", 1 << 30, 512, 1_700_000_000_000_010),
            entry("alloc", (1 << 30) + 512, 512, time_us),
            entry("free_requested", (1 << 30) + 512, 512, 1_700_000_000_000_020),
            entry("free_completed", (1 << 30) + 512, 512, 1_700_000_000_000_021),
            entry("free_requested", 1 << 30, 512, 1_700_000_000_000_022),
            entry("free_completed", 1 << 30, 512, 1_700_000_000_000_023),
            entry("segment_free", 1 << 30, 2 << 20, 1_700_000_000_000_024),
        ];
        fs::write(&path, json!({"segments": [], "device_traces": [trace]}).to_string()).unwrap();
        let gate = run(&["gate", "--strict", "--max-peak", "1KiB", file]).status.code();
        let [top, validate, fix, timeline] = [&["top"][..], &["validate"], &["fix"], &["timeline"]]
            .map(|command| stdout(&run(&[command, &[file]].concat())).to_owned());
        (
            gate,
            top.contains("older than"),
            validate.contains("20 "),
            fix.contains("sorted entries by time"),
            timeline,
        )
    };
    for time_us in [0, 1_700_000_000_000_009] {
        let (gate, top, validate, fix, timeline) = asked(time_us);
        assert_eq!((gate, top, validate, fix), (Some(0), false, false, false), "{time_us}");
        assert!(timeline.contains("8 events in 0.000 s"), "{timeline}");
    }
    let (gate, top, validate, _, _) = asked(1_600_000_000_000_000);
    assert_eq!((gate, top, validate), (Some(4), true, true));
}

#[test]
fn a_share_below_one_percent_needs_its_unit() {
    let file = "torch-2.11/snapshots/oom.pickle";
    let output = run(&["gate", "--baseline", file, "--tolerance", "0.02", file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("0.02% is less than one percent"));
    for tolerance in ["0.02%", "0", "2", "2%"] {
        assert_eq!(run(&["gate", "--baseline", file, "--tolerance", tolerance, file]).status.code(), Some(0));
    }
}

/// The files of two ranks have a device each, with different numbers.
#[test]
fn the_only_devices_of_a_file_and_its_baseline_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<String> = memreel_snapshot::rewrite::split(crate::recorded::recorded(1, 200))
        .into_iter()
        .map(|(device, part)| {
            let path = folder.path().join(format!("rank{device}.pickle"));
            memreel_snapshot::pickle::save(&part, &path).unwrap();
            path.to_str().unwrap().to_owned()
        })
        .collect();
    let output = run(&["gate", "--tolerance", "100000%", "--baseline", &paths[0], &paths[1]]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("(baseline)"), "{text}");
    let none = run(&["gate", "--max-peak", "1GiB", "--device", "0", &paths[1]]);
    assert_eq!(none.status.code(), Some(2), "a device without memory has no figures to check");
    let why = String::from_utf8(none.stderr).unwrap();
    assert!(why.contains("no device 0; devices with memory: 1"), "{why}");
}

/// What a heap has reserved are pages that were ever touched.
#[test]
fn the_reserved_pages_of_a_heap_are_not_compared_with_a_baseline() {
    let folder = tempfile::tempdir().unwrap();
    let saved = |file: &str, device_name: &str, segment_bytes: u64| {
        let recorder = Recorder::new();
        recorder.record_history(&Recording::all());
        recorder.describe_device(DeviceId(0), device_name, "");
        let ledger = recorder.ledger(DeviceId(0));
        ledger.segment_alloc(Address(0x20_0000), segment_bytes, StreamId::DEFAULT).unwrap();
        ledger.alloc(Address(0x20_0000), 4096, StreamId::DEFAULT).unwrap();
        let path = folder.path().join(file);
        pickle::save(&snapshot::collect(&recorder, [&ledger], Dialect::default()), &path).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for (name, status) in [("heap of the process", 0), ("NVIDIA H200", 4)] {
        let (before, now) = (saved("before.pickle", name, 8192), saved("now.pickle", name, 12_288));
        let gated = run(&["gate", "--baseline", &before, &now]);
        assert_eq!(gated.status.code(), Some(status), "{name}: {}", stdout(&gated));
    }
}

/// What the file of a run names is a file in its folder, which has to be there.
#[test]
fn a_run_has_all_of_its_snapshots_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str| folder.path().join("run").join(name);
    fs::create_dir(of("")).unwrap();
    let snapshot = fs::read(fixture("torch-2.11/snapshots/oom_fragment.pickle")).unwrap();
    for path in [of("a.pickle"), folder.path().join("secret.pickle")] {
        fs::write(path, &snapshot).unwrap();
    }
    let path = of("r.memreel").display().to_string();
    let name = |file: &str| {
        let process = json!({"process": 1, "rank": null, "file": file, "peak_bytes": 5, "is_helper": false});
        let run = json!({"memreel_run": 1, "program": [], "processes": [process], "not_recorded": [],
            "failures": [], "failed_calls": []});
        fs::write(&path, run.to_string()).unwrap();
    };
    let gate = |path: &str| run(&["gate", "--max-peak", "9GiB", path]);
    let in_folder = of("").display().to_string();
    name("a.pickle");
    assert_eq!([&path, &in_folder].map(|path| gate(path).status.code()), [Some(0); 2]);
    assert_eq!(stdout(&gate(&in_folder)).matches("peak").count(), 1, "the file counts once");
    for missing in ["gone.pickle", "*.pickle"] {
        name(missing);
        let gated = [&path, &in_folder].map(|path| gate(path));
        let texts = gated.each_ref().map(|gated| format!("{}{}", stdout(gated), stderr(gated)));
        assert_eq!(gated.map(|gated| gated.status.code()), [Some(3); 2], "{texts:?}");
    }
    for outside in ["../secret.pickle", "", "-", "../run"] {
        name(outside);
        let others = [gate(&path), gate(&in_folder), run(&["top", &path])];
        for refused in others {
            assert_eq!(refused.status.code(), Some(3), "{outside} {}", stdout(&refused));
            let why = format!("names {outside:?}, which is not a file in its folder");
            assert!(stderr(&refused).contains(&why), "{}", stderr(&refused));
        }
    }
}
