//! The frames that identify an allocation, on stacks that PyTorch, CuPy, Rust and C++ programs recorded.
//!
//! A line of `real_stacks.txt` is a frame, innermost first: its name and its file, after a `>` if it
//! identifies the allocation.

use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{By, DeviceHistory, Limits, ShownFrames, Site},
    export::{Format, convert},
    rewrite::Slim,
};
use serde_json::{Value, json};

const STACKS: &str = include_str!("real_stacks.txt");

/// A stack: its title, and its frames with whether they identify the allocation.
type Stack = (&'static str, Vec<(bool, &'static str, &'static str)>);

fn stacks() -> Vec<Stack> {
    let mut all: Vec<Stack> = Vec::new();
    for line in STACKS.lines().filter(|line| !line.is_empty()) {
        if let Some(title) = line.strip_prefix("# ") {
            all.push((title, Vec::new()));
            continue;
        }
        let (name, file) = line[2..].rsplit_once(" | ").expect("a name and a file");
        all.last_mut().expect("a title before frames").1.push((line.starts_with('>'), name, file));
    }
    all
}

/// A snapshot with one block for each stack, of 512 bytes times its number from 1.
fn snapshot(stacks: &[Stack]) -> Snapshot {
    let frames = |frames: &[(bool, &str, &str)]| -> Vec<Value> {
        let frame = |(_, name, file): &(bool, &str, &str)| json!({"name": name, "filename": file, "line": 1});
        frames.iter().map(frame).collect()
    };
    let (mut blocks, mut entries, mut next) = (Vec::new(), Vec::new(), 0_u64);
    for ((_, stack), size) in stacks.iter().zip((1..).map(|number| 512 * number)) {
        entries.push(json!({
            "action": "alloc", "addr": next, "size": size, "stream": 0, "time_us": next, "frames": frames(stack),
        }));
        blocks.push(json!({
            "address": next, "size": size, "requested_size": size, "state": "active_allocated",
            "frames": frames(stack),
        }));
        next += size;
    }
    let segment = json!({
        "device": 0, "address": 0, "total_size": next, "allocated_size": next, "active_size": next,
        "requested_size": next, "stream": 0, "segment_type": "large", "segment_pool_id": [0, 0],
        "is_expandable": false, "frames": [], "blocks": blocks,
    });
    serde_json::from_value(json!({"segments": [segment], "device_traces": [entries]})).unwrap()
}

/// For each stack, whether its frames identify the allocation.
fn marks(snapshot: &Snapshot) -> Vec<Vec<bool>> {
    let shown = ShownFrames::new(snapshot);
    let stacks = snapshot.device_traces[0].iter().map(|entry| entry.stack.unwrap());
    stacks.map(|stack| shown.marked(stack).map(|frame| frame.is_shown).collect()).collect()
}

#[test]
fn real_stacks_show_the_code_that_allocated() {
    let stacks = stacks();
    assert!(stacks.len() > 20, "{}", stacks.len());
    let snapshot = snapshot(&stacks);
    for ((title, frames), marks) in stacks.iter().zip(marks(&snapshot)) {
        for ((expected, name, file), is_shown) in frames.iter().zip(marks) {
            assert_eq!(is_shown, *expected, "{title}: {name} | {file}");
        }
        assert!(frames.iter().any(|(is_shown, ..)| *is_shown), "{title}");
    }
}

/// Every answer begins at the same frame.
#[test]
fn all_answers_name_the_same_code() {
    for stack in stacks() {
        let title = stack.0;
        let (_, name, file) = *stack.1.iter().find(|(is_shown, ..)| *is_shown).unwrap();
        let snapshot = snapshot(&[stack]);
        let history = DeviceHistory::new(&snapshot, DeviceId(0));
        let by_function = history.top(history.end(), By::Function);
        let site = Site::Function { name: name.into(), filename: file.into() };
        assert_eq!((&by_function[0].site, by_function[0].bytes), (&site, 512), "{title}");
        let tree = history.tree(history.end(), 0);
        let innermost = snapshot.stacks.frame(tree.last().unwrap().frame.unwrap());
        assert_eq!(&*innermost.name, name, "{title}");
        let refused = Limits::new().peak_bytes(1).allow_partial(true).broken_by(&snapshot).unwrap();
        let line = refused.lines().find(|line| line.starts_with("    ")).unwrap();
        assert!(line.trim_start().starts_with(name), "{title}: {refused}");
        let converted = |format| {
            let mut out = Vec::new();
            convert(&snapshot, format, &mut out).unwrap();
            String::from_utf8_lossy(&out).into_owned()
        };
        let csv = converted(Format::Csv);
        let cell = format!("{file}:1:{name}").replace('"', "\"\"");
        assert!(csv.contains(&cell), "{title}: {csv}");
        let folded = converted(Format::Folded);
        assert!(folded.trim_end().ends_with(&format!("{} 512", name.replace(';', " "))), "{title}: {folded}");
        let perfetto = converted(Format::Perfetto);
        assert!(perfetto.contains(&json!(name).to_string()), "{title}: {perfetto}");
        assert!(
            !converted(Format::Pprof).contains("unwind::unwind") || title.contains("no others"),
            "{title}"
        );
    }
}

/// Frames without names are shown like the frames that they stand for, here and in viewers.
#[test]
fn stacks_without_names_show_the_same_frames() {
    let whole = snapshot(&stacks());
    let cut = Slim::new().anonymise(true).apply(whole.clone()).unwrap();
    assert_eq!(marks(&cut), marks(&whole));
    let [before, after] = [&whole, &cut].map(|snapshot| {
        let shown = ShownFrames::new(snapshot);
        let stacks = snapshot.device_traces[0].iter().map(|entry| entry.stack.unwrap());
        stacks.map(|stack| shown.members(stack).count()).collect::<Vec<_>>()
    });
    assert_eq!(before, after);
    let text = serde_json::to_string(&cut).unwrap();
    for secret in ["ema_callback", "on_train_start", "make_big", "model::", "train::", "torchrun", "matrices"]
    {
        assert!(!text.contains(secret), "{secret}");
    }
}
