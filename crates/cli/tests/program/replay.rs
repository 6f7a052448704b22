//! `memreel replay`: its output and its exit statuses.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    process::{Command, Output},
};

use memreel_snapshot::{Snapshot, pickle, validate};
use serde_json::{Value, json};

use crate::model_recording::{read, snapshot};

fn replay(arguments: &[&str]) -> Output {
    let folder = crate::repository("fixtures/torch-2.11/snapshots");
    Command::new(env!("CARGO_BIN_EXE_memreel"))
        .arg("replay")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn refused(output: &Output, status: i32) -> String {
    assert_eq!(output.status.code(), Some(status));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn the_recorded_training_under_the_other_settings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("default.pickle");
    pickle::save(&snapshot(&read("default")), &path).unwrap();
    let path = path.to_str().unwrap();
    let expandable = "expandable_segments:True";
    let confs = ["", expandable, "max_split_size_mb:64", "roundup_power2_divisions:8"];
    let mut arguments = vec!["--json"];
    confs.iter().for_each(|conf| arguments.extend(["--conf", conf]));
    arguments.push(path);
    let lines = lines(&replay(&arguments));
    // The bytes that an H100 reserved under each setting.
    let recorded = [2_780_823_552_u64, 2_283_798_528, 3_846_176_768, 2_663_383_040];
    assert_eq!(lines.len(), 4);
    for ((line, conf), recorded) in lines.iter().zip(confs).zip(recorded) {
        assert_eq!(line["conf"], conf);
        assert_eq!((&line["device"], &line["requests"]), (&json!(0), &json!(5472)));
        assert_eq!(line["reserved_peak_bytes"], recorded, "{conf}: exact with falling addresses");
        assert_eq!((&line["num_ooms"], &line["first_oom"]), (&json!(0), &Value::Null));
        for key in ["allocated_peak_bytes", "num_alloc_retries", "num_device_alloc", "num_device_free"] {
            assert!(line[key].is_u64(), "{key}");
        }
    }
    assert_eq!(lines[0]["num_device_alloc"], 96);
    assert_eq!(lines[0]["allocated_peak_bytes"], 2_213_581_312_u64);
}

#[test]
fn the_default_is_the_recorded_setting() {
    let [line] = &lines(&replay(&["--json", "expandable_wrapped_ring.pickle"]))[..] else {
        panic!("one line")
    };
    assert_eq!(line["conf"], "expandable_segments:True");
    assert_eq!(line["pre_existing_blocks"], 15);
    assert!(line["warnings"][0].as_str().unwrap().contains("incomplete"));
}

#[test]
fn a_recording_out_of_memory_brings_its_limit() {
    let text = |arguments: &[&str]| {
        let output = replay(arguments);
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    };
    let inferred = text(&["oom_fragment.pickle"]);
    let limit = "\nlimit: 2.00 GiB; a request failed although the device had more memory free, so the process must have \
                 had a limit between 2.00 GiB and 2.03 GiB (same as --limit 2046MiB; use --limit to change it)\n";
    assert!(inferred.contains(limit), "{inferred}");
    assert!(!text(&["--limit", "2145386496", "oom_fragment.pickle"]).contains("\nlimit: "));
    assert!(!text(&["resnet18_python_stacks.pickle"]).contains("\nlimit: "), "nothing failed");
    let [line] = &lines(&replay(&["--json", "oom_fragment.pickle"]))[..] else { panic!("one line") };
    assert_eq!((&line["num_ooms"], &line["recorded_num_ooms"]), (&json!(1), &json!(1)));
    let could_hold = json!({"at_least_bytes": 2_145_386_496_u64, "at_most_bytes": 2_181_038_079_u64, "is_limit": true, "device_bytes": 83_367_034_880_u64});
    assert_eq!((&line["limit_bytes"], &line["could_hold"]), (&json!(2_145_386_496_u64), &could_hold));
    let free = lines(&replay(&["--json", "--limit", "1TiB", "oom_fragment.pickle"]));
    assert_eq!(free[0]["num_ooms"], 0);
}

#[test]
fn the_baseline_is_the_recorded_run() {
    for (file, peak) in
        [("oom_fragment.pickle", "2.00 GiB"), ("expandable_wrapped_ring.pickle", "762.00 MiB")]
    {
        let text = String::from_utf8(replay(&[file]).stdout).unwrap();
        let baseline = format!(
            "\nbaseline: the replay reproduces the recorded peak of {peak} and every change in reserved \
             memory; confidence: certain\n"
        );
        assert!(text.contains(&baseline), "{text}");
        let [line] = &lines(&replay(&["--json", file]))[..] else { panic!("one line") };
        let baseline = &line["baseline"];
        assert_eq!(baseline["peak_bytes"], line["recorded_reserved_peak_bytes"]);
        let deviation = ["deviation_bytes", "deviation_entry", "num_other_ooms"].map(|key| &baseline[key]);
        assert_eq!(deviation, [&json!(0), &Value::Null, &json!(0)]);
        assert_eq!(line["confidence"], "sure");
    }
}

#[test]
fn a_switch_of_settings_in_the_run() {
    let file = "resnet18_python_stacks.pickle";
    let expandable = ["--conf", "expandable_segments:True"];
    let one = |arguments: &[&str]| lines(&replay(&[arguments, &["--json", file]].concat())).remove(0);
    let [recorded, whole] =
        [one(&[]), one(&expandable)].map(|line| line["reserved_peak_bytes_falling"].clone());
    let from = |moment: &str| one(&[&["--from", moment], &expandable[..]].concat());
    let early = from("0");
    assert_eq!(early["switch"], json!({"entry": 0, "conf": "expandable_segments:True"}));
    assert_eq!((&early["conf"], &early["reserved_peak_bytes_falling"]), (&json!(""), &whole));
    let late = one(&["--from", "3600s", "--conf", "", "--conf", "expandable_segments:True"]);
    assert_eq!(late["reserved_peak_bytes_falling"], recorded);
    let text = replay(&[&["--from", "700"], &expandable[..], &[file]].concat());
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("\n(defaults), from event 700 expandable_segments:True "), "{text}");
    for (moment, what) in [("99999", "no event 99999"), ("nowhere", "--from takes an event number")] {
        let message = refused(&replay(&[&["--from", moment], &expandable[..], &[file]].concat()), 2);
        assert!(message.contains(what), "{message}");
    }
}

#[test]
fn an_out_of_memory_request_has_its_number_and_stack() {
    let output = replay(&["--json", "--conf", "", "--limit", "2GiB", "oom_fragment.pickle"]);
    let lines = lines(&output);
    let oom = &lines[0]["first_oom"];
    assert_eq!((&oom["request"], &oom["size_bytes"]), (&json!(158), &json!(35_188_736)));
    assert_eq!(oom["stack"][0]["line"], 52);
    let output = replay(&["--limit", "2GiB", "oom_fragment.pickle"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains(
            "\nunder (defaults):\nout of memory at request 158 (event 362), 33.56 MiB (35188736 bytes)\n  requested by  "
        ),
        "{text}"
    );
    assert!(text.contains("requested by  <module> (models.py:52)"), "{text}");
}

#[test]
fn a_sweep_names_the_least() {
    let output = replay(&["--sweep", "-n", "100", "--limit", "2GiB", "oom_fragment.pickle"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let expected = "best: expandable_segments:True satisfies every request, including 1 that failed with the default \
                    settings, and reserves 1.97 GiB instead of 2.00 GiB (-1.3 %), with 67 device allocs and 0 device frees instead \
                    of 72 and 2";
    let printed: Vec<&str> = text.lines().collect();
    // Above it are the recorded run and an empty line.
    let head = printed.iter().position(|line| line.is_empty()).unwrap();
    assert_eq!(printed[head + 1..head + 3], [expected, "  PYTORCH_ALLOC_CONF=expandable_segments:True"]);
    assert_eq!(printed[head + 3], "45 settings gave 13 different results, best first:");
    let rows: Vec<&&str> = printed.iter().skip_while(|line| !line.starts_with("setting")).skip(1).collect();
    assert!(rows[0].starts_with("expandable_segments:True  "), "the best is first: {}", rows[0]);
    // No two rows have the same figures, and every setting is somewhere.
    let table: Vec<&&&str> = rows.iter().take_while(|line| !line.is_empty()).collect();
    let figures = |line: &str| line.split("  ").skip(1).collect::<Vec<_>>().join(" ");
    let distinct: Vec<String> =
        table.iter().filter(|line| !line.starts_with(' ')).map(|line| figures(line)).collect();
    assert_eq!((distinct.len(), distinct.iter().collect::<BTreeSet<_>>().len()), (13, 13), "{text}");
    assert!(text.contains("\n  same result: max_split_size_mb:{64,128,256,512}\n"), "{text}");
    // Of the settings under which a request fails, only the recorded one has it in full.
    let failures: Vec<&str> = text.lines().filter(|line| line.starts_with("under ")).collect();
    assert_eq!(failures, ["under (defaults):"], "{text}");
    assert_eq!(text.matches("\nout of memory at request ").count(), 1, "{text}");
    let last = "other results with failed requests; use --conf SETTING to see the first failed request and its stack";
    assert!(text.lines().last().unwrap().ends_with(last), "{text}");
    let lines = lines(&replay(&["--sweep", "--json", "--limit", "2GiB", "oom_fragment.pickle"]));
    let least: Vec<&Value> = lines.iter().filter(|line| line["is_least"] == true).collect();
    assert_eq!(least.len(), 1);
    assert_eq!((&least[0]["conf"], &least[0]["place"]), (&json!("expandable_segments:True"), &json!(1)));
    // Settings with the same result share a place.
    let places: BTreeSet<u64> = lines.iter().map(|line| line["place"].as_u64().unwrap()).collect();
    assert_eq!(places, (1..=13).collect());
    assert_eq!(lines.len(), 45);
}

#[test]
fn a_sweep_names_the_recorded_setting_if_it_is_the_best() {
    let text = String::from_utf8(replay(&["--sweep", "cpp_path.pickle"]).stdout).unwrap();
    assert!(
        text.contains("\nbest: (defaults), the recorded setting; no other setting needs less\n"),
        "{text}"
    );
    assert!(!text.contains("PYTORCH_ALLOC_CONF"), "{text}");
}

#[test]
fn a_sweep_compares_with_what_was_recorded() {
    let text = String::from_utf8(replay(&["--sweep", "oom_fragment.pickle"]).stdout).unwrap();
    let best = "\nbest: expandable_segments:True satisfies every request, including 1 that failed with the default settings, \
                and reserves 1.97 GiB instead of 2.00 GiB (-1.3 %), with 67 device allocs and 0 device frees instead of 72 \
                and 2\n";
    assert!(text.contains(best), "{text}");
    assert!(text.contains("\n(defaults) (recorded setting) "), "{text}");
    // Eight rows, and a word about the others.
    assert!(text.contains(", best first (use -n to show more):\n"), "{text}");
    let rows = text.lines().skip_while(|line| !line.starts_with("setting")).skip(1);
    let n_rows = rows.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with(' ')).count();
    assert_eq!(n_rows, 8, "{text}");
    let single = |arguments: &[&str]| String::from_utf8(replay(arguments).stdout).unwrap();
    let limited = single(&["--limit", "1GiB", "oom_fragment.pickle"]);
    let difference =
        "\nrecorded: 2.00 GiB; replayed under the recorded setting: 1.00 GiB, because of --limit 1GiB\n";
    assert!(limited.contains(difference), "{limited}");
    // Where both are equal nothing is added.
    assert!(!single(&["--sweep", "resnet18_python_stacks.pickle"]).contains("replayed under"));
}

/// Returns the setting of the first row of each place.
fn places(file: &str) -> Vec<(u64, String)> {
    let lines = lines(&replay(&["--sweep", "--json", file]));
    let mut all: Vec<_> = lines
        .iter()
        .map(|line| (line["place"].as_u64().unwrap(), line["conf"].as_str().unwrap().to_owned()))
        .collect();
    all.sort_by_key(|(place, conf)| (*place, conf.split(',').count(), conf.len()));
    all.dedup_by_key(|(place, _)| *place);
    all
}

#[test]
fn a_difference_of_addresses_alone_is_not_a_better_setting() {
    // With falling addresses, 116 MiB under both settings; with the recorded ones, 118 under the recorded setting.
    let transformer = places("transformer_all_stacks.pickle");
    let confs: Vec<&str> = transformer.iter().map(|(_, conf)| &**conf).collect();
    assert_eq!(confs[..2], ["expandable_segments:True", ""]);
    let arguments =
        ["--conf", "", "--conf", "max_split_size_mb:64", "--json", "transformer_all_stacks.pickle"];
    let two = lines(&replay(&arguments));
    assert_eq!(two[0]["reserved_peak_bytes_falling"], two[1]["reserved_peak_bytes_falling"]);
    assert_eq!((&two[0]["is_least"], &two[1]["is_least"]), (&json!(true), &json!(false)));
}

#[test]
fn of_near_peaks_the_one_with_the_fewest_device_calls_is_the_best() {
    let best = "expandable_segments:True,roundup_power2_divisions:16";
    let text = String::from_utf8(replay(&["--sweep", "resnet18_python_stacks.pickle"]).stdout).unwrap();
    assert!(text.contains(&format!("\nbest: {best} reserves 398.00 MiB instead of ")), "{text}");
    assert!(text.contains(&format!("\n  PYTORCH_ALLOC_CONF={best}\n")), "{text}");
    let confs: Vec<String> =
        places("resnet18_python_stacks.pickle").into_iter().map(|(_, conf)| conf).collect();
    assert_eq!(confs[..2], [best, "expandable_segments:True"], "26 calls, and 27");
}

#[test]
fn a_sweep_in_which_every_setting_fails() {
    let text =
        String::from_utf8(replay(&["--sweep", "--limit", "300MiB", "oom_fragment.pickle"]).stdout).unwrap();
    let best = " lets 101 requests fail instead of 111 with the default settings, and reserves 300.00 MiB instead of 300.00 MiB \
                (+0.0 %), ";
    assert!(text.contains(best), "{text}");
    assert!(text.contains("\nno setting that was tried satisfies every request\n"), "{text}");
}

#[test]
fn the_output_is_valid_and_wrong_input_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("replayed.pickle");
    let path = out.to_str().unwrap();
    let conf = "expandable_segments:True";
    assert_eq!(replay(&["--conf", conf, "-o", path, "pending_free.pickle"]).status.code(), Some(0));
    let written = pickle::load(&out).unwrap();
    assert!(written.segments.iter().all(|segment| segment.is_expandable));
    assert_eq!(validate::check_file(&out).unwrap().len(), 0);
    std::fs::remove_file(&out).unwrap();

    let refusals: [(&[&str], i32, &str); 6] = [
        (&["no_history.pickle"], 1, "nothing was recorded"),
        (&["--conf", "expandable_segments:True,nonsense:1", "oom.pickle"], 2, "character 25"),
        (&["--conf", "", "--conf", conf, "oom.pickle"], 2, "one setting"),
        (&["--device", "7", "oom.pickle"], 2, "no device 7"),
        (&["--limit", "some", "oom.pickle"], 2, "24GiB"),
        (&["missing.pickle"], 3, "missing.pickle"),
    ];
    for (arguments, status, what) in refusals {
        let message = refused(&replay(&[&["-o", path], arguments].concat()), status);
        assert!(message.contains(what), "{message}");
        assert!(!out.exists(), "{arguments:?}");
    }
}

#[test]
fn a_double_alloc_is_reported_with_its_entry() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("broken.pickle");
    let mut broken: Snapshot =
        pickle::load(crate::repository("fixtures/torch-2.11/snapshots/oom.pickle")).unwrap();
    let trace = &mut broken.device_traces[0];
    trace[3].address = trace[1].address;
    pickle::save(&broken, &path).unwrap();
    let message = refused(&replay(&[path.to_str().unwrap()]), 1);
    assert!(message.contains("device 0, entry 3: a double alloc"), "{message}");
}

#[test]
fn each_device_has_its_own_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.pickle");
    let reel = memreel::Reel::builder()
        .device(memreel::device::Simulated::new(1 << 30))
        .device(memreel::device::Simulated::new(1 << 30))
        .history(memreel::recorder::Recording::all().context(memreel::recorder::Context::None))
        .build()
        .unwrap();
    let blocks: Vec<_> = [(0, 1000), (1, 30 << 20), (1, 30 << 20)]
        .map(|(device, bytes)| {
            reel.allocator(device).unwrap().alloc(bytes, memreel_snapshot::StreamId::DEFAULT).unwrap()
        })
        .into();
    reel.save(&path).unwrap();
    drop(blocks);
    let (path, out) = (path.to_str().unwrap(), folder.path().join("out.pickle"));
    let message = lines(&replay(&["--json", "-o", out.to_str().unwrap(), path]));
    let peaks: Vec<_> =
        message.iter().map(|l| (l["device"].clone(), l["reserved_peak_bytes"].clone())).collect();
    assert_eq!(peaks, [(json!(0), json!(2 << 20)), (json!(1), json!(60 << 20))]);
    assert_eq!(message[0]["waste_at_peak_bytes"], (2 << 20) - 1024);
    let one = lines(&replay(&["--json", "--device", "1", path]));
    assert_eq!((one.len(), &one[0]["requests"]), (1, &json!(2)));
    let written = pickle::load(&out).unwrap();
    assert_eq!(written.device_traces.iter().map(Vec::len).collect::<Vec<_>>(), [2, 4]);
    assert_eq!(validate::check_file(&out).unwrap().len(), 0);
}
