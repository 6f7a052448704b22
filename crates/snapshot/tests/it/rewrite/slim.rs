//! `rewrite::Slim`: a window's state equals the full history's at the same events, as a naive replay has it.

use memreel_testing::repository;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use memreel::recorder::{Context, Recording};
use memreel_snapshot::{
    Action, DeviceId, Snapshot,
    analysis::{Made, ShownFrames, is_shown},
    model::{Frame, TraceEntry},
    pickle,
    rewrite::{Slim, Window},
    validate::{Severity, validate},
};
use serde_json::json;

use crate::random::Random;
use crate::recorded::{recorded, recorded_as};

const PAGE: u64 = 2 << 20;

/// What is in use, and which pages the device gave.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct State {
    /// Requested bytes, and whether the program still holds them, by address.
    blocks: BTreeMap<u64, (u64, bool)>,
    pages: BTreeSet<u64>,
}

fn pages(entry: &TraceEntry) -> Range<u64> {
    assert!(entry.address.0.is_multiple_of(PAGE) && entry.size.is_multiple_of(PAGE));
    entry.address.0 / PAGE..(entry.address.0 + entry.size) / PAGE
}

impl State {
    fn step(&mut self, entry: &TraceEntry) {
        match entry.action.unwrap() {
            Action::Alloc => drop(self.blocks.insert(entry.address.0, (entry.size, true))),
            Action::FreeRequested => self.blocks.get_mut(&entry.address.0).unwrap().1 = false,
            Action::FreeCompleted => drop(self.blocks.remove(&entry.address.0).unwrap()),
            Action::SegmentAlloc | Action::SegmentMap => self.pages.extend(pages(entry)),
            Action::SegmentFree | Action::SegmentUnmap => {
                pages(entry).for_each(|page| assert!(self.pages.remove(&page)));
            }
            _ => {}
        }
    }

    fn undo(&mut self, entry: &TraceEntry) {
        match entry.action.unwrap() {
            Action::Alloc => drop(self.blocks.remove(&entry.address.0).unwrap()),
            Action::FreeRequested => self.blocks.get_mut(&entry.address.0).unwrap().1 = true,
            Action::FreeCompleted => {
                assert!(self.blocks.insert(entry.address.0, (entry.size, false)).is_none());
            }
            Action::SegmentAlloc | Action::SegmentMap => {
                pages(entry).for_each(|page| assert!(self.pages.remove(&page)));
            }
            Action::SegmentFree | Action::SegmentUnmap => self.pages.extend(pages(entry)),
            _ => {}
        }
    }

    /// After the last event of a file: from its dictionaries, as a reader of the file sees them.
    ///
    /// A block is where the sizes before it put it; what was requested is in `requested_size`, or in the
    /// first use that its `history` lists.
    fn end(snapshot: &Snapshot, device: usize) -> State {
        let json = serde_json::to_value(snapshot).unwrap();
        let int = |value: &serde_json::Value| value.as_u64().unwrap();
        let mut state = State::default();
        for segment in json["segments"].as_array().unwrap().iter().filter(|s| s["device"] == device) {
            let start = int(&segment["address"]);
            state.pages.extend(start / PAGE..(start + int(&segment["total_size"])) / PAGE);
            let mut address = start;
            for block in segment["blocks"].as_array().unwrap() {
                let requested = block.get("requested_size").or(block.pointer("/history/0/real_size"));
                if block["state"] != "inactive" {
                    let is_held = block["state"] == "active_allocated";
                    state.blocks.insert(address, (int(requested.unwrap()), is_held));
                }
                address += int(&block["size"]);
            }
        }
        state
    }

    /// Before the first.
    fn start(snapshot: &Snapshot, device: usize) -> State {
        let mut state = State::end(snapshot, device);
        snapshot.device_traces[device].iter().rev().for_each(|entry| state.undo(entry));
        state
    }

    /// After so many events of a whole history.
    fn after(trace: &[TraceEntry], n_events: usize) -> State {
        let mut state = State::default();
        trace[..n_events].iter().for_each(|entry| state.step(entry));
        state
    }
}

fn errors(snapshot: &Snapshot) -> Vec<String> {
    let findings = validate(snapshot);
    findings.iter().filter(|finding| finding.severity == Severity::Error).map(ToString::to_string).collect()
}

fn window(range: Range<usize>) -> Slim {
    Slim::new().window(Window::Events { device: Some(DeviceId(0)), range })
}

#[test]
fn a_window_begins_and_ends_as_the_whole_history_was() {
    for seed in 0..150 {
        let whole = recorded(seed, 250);
        let trace = &whole.device_traces[0];
        let mut random = Random::new(seed);
        for _ in 0..4 {
            let from = random.index(trace.len());
            let to = from + random.index(trace.len() + 1 - from);
            let cut = window(from..to).apply(whole.clone()).unwrap();
            assert_eq!(cut.device_traces[0], trace[from..to], "seed {seed}");
            assert_eq!(State::end(&cut, 0), State::after(trace, to), "seed {seed}: the end of {from}..{to}");
            assert_eq!(
                State::start(&cut, 0),
                State::after(trace, from),
                "seed {seed}: the start of {from}..{to}"
            );
            assert_eq!(errors(&cut), [""; 0], "seed {seed}: {from}..{to}");
        }
    }
}

/// The ring lost the beginning; what the whole history says of it is the truth.
#[test]
fn a_window_of_a_wrapped_ring_is_as_true() {
    let history = || Recording::all().context(Context::Alloc);
    for seed in 0..100 {
        let whole = recorded_as(seed, 250, history());
        let ring = recorded_as(seed, 250, history().max_entries(120));
        let (trace, kept) = (&whole.device_traces[0], ring.device_traces[0].len());
        let lost = trace.len() - kept;
        let mut random = Random::new(seed);
        let from = random.index(kept);
        let to = from + random.index(kept + 1 - from);
        let cut = window(from..to).apply(ring).unwrap();
        assert_eq!(State::end(&cut, 0), State::after(trace, lost + to), "seed {seed}: {from}..{to}");
        assert_eq!(State::start(&cut, 0), State::after(trace, lost + from), "seed {seed}: {from}..{to}");
        assert_eq!(errors(&cut), [""; 0], "seed {seed}: {from}..{to}");
    }
}

#[test]
fn a_block_freed_later_has_the_stack_of_its_alloc() {
    let mut n_blocks = 0;
    for seed in 0..30 {
        let whole = recorded(seed, 250);
        let trace = &whole.device_traces[0];
        let to = trace.len() / 2;
        let cut = window(0..to).apply(whole.clone()).unwrap();
        for block in
            cut.segments.iter().filter(|segment| segment.device == DeviceId(0)).flat_map(|s| &s.blocks)
        {
            if block.state.unwrap().is_active() {
                let is_its = |e: &&TraceEntry| e.action == Some(Action::Alloc) && e.address == block.address;
                assert_eq!(block.stack, trace[..to].iter().rev().find(is_its).unwrap().stack);
                n_blocks += 1;
            }
        }
    }
    assert!(n_blocks > 300);
}

#[test]
fn a_window_of_time_is_that_of_its_events_on_every_device() {
    let mut whole = recorded(4, 300);
    for trace in &mut whole.device_traces {
        (0..).zip(trace).for_each(|(time, entry)| entry.time_us = 1000 + 10 * time);
    }
    let slim = Slim::new().window(Window::Time(1100..1205));
    let cut = slim.apply(whole.clone()).unwrap();
    for device in 0..2 {
        let end = whole.device_traces[device].len().min(21);
        assert_eq!(cut.device_traces[device], whole.device_traces[device][10..end]);
        assert_eq!(State::end(&cut, device), State::after(&whole.device_traces[device], end));
    }
}

#[test]
fn a_scope_is_from_its_first_event_to_its_last() {
    let whole = recorded(2, 300);
    let scope = |entry: &TraceEntry| whole.user_metadata(entry) == "forward";
    let trace = &whole.device_traces[0];
    let (first, last) = (trace.iter().position(scope).unwrap(), trace.iter().rposition(scope).unwrap());
    let slim = Slim::new().window(Window::Scope { name: "forward".into(), nth: None });
    // Without annotations the entries themselves tell.
    let mut plain = whole.clone();
    plain.external_annotations.clear();
    let cut = slim.apply(plain).unwrap();
    assert_eq!(cut.device_traces[0], trace[first..=last]);
    let cut = slim.apply(whole.clone()).unwrap();
    // Events of the same microsecond as the START or the END are in it.
    let marks = || whole.external_annotations.iter().filter(|mark| &*mark.name == "forward");
    let times =
        marks().map(|mark| mark.time_us).min().unwrap()..=marks().map(|mark| mark.time_us).max().unwrap();
    let expected: Vec<TraceEntry> =
        trace.iter().filter(|entry| times.contains(&entry.time_us)).copied().collect();
    assert!(expected.iter().any(scope));
    assert_eq!(cut.device_traces[0], expected);
    let slim = Slim::new().window(Window::Scope { name: "nothing".into(), nth: None });
    assert!(slim.apply(whole).unwrap_err().is_misuse());
}

#[test]
fn small_blocks_go_with_all_their_events() {
    for seed in 0..60 {
        let whole = recorded(seed, 250);
        let slim = Slim::new().min_bytes(100_000);
        let cut = slim.apply(whole.clone()).unwrap();
        assert_eq!(errors(&cut), [""; 0], "seed {seed}");
        for device in 0..2 {
            let mut expected = State::end(&whole, device);
            expected.blocks.retain(|_, (size, _)| *size >= 100_000);
            assert_eq!(State::end(&cut, device), expected, "seed {seed}");
            assert!(State::start(&cut, device).blocks.is_empty());
            let is_block = |e: &&TraceEntry| matches!(e.action, Some(Action::Alloc | Action::FreeCompleted));
            let large = |trace: &[TraceEntry]| {
                trace.iter().filter(is_block).filter(|entry| entry.size >= 100_000).count()
            };
            let kept = cut.device_traces[device].iter().filter(is_block).count();
            assert_eq!(kept, large(&whole.device_traces[device]), "seed {seed}");
        }
    }
}

fn with_frames() -> Snapshot {
    let folder = repository("fixtures/torch-2.11/snapshots");
    pickle::load(folder.join("transformer_all_stacks.pickle")).unwrap()
}

#[test]
fn frames_go_by_depth_and_by_path() {
    let whole = with_frames();
    let slim = Slim::new().depth(3).drop_path("/torch/");
    let cut = slim.apply(whole.clone()).unwrap();
    for (entry, original) in cut.device_traces[0].iter().zip(&whole.device_traces[0]) {
        let mut n_left = 3;
        let mut kept = Vec::new();
        for frame in whole.frames(original.stack).filter(|frame| !frame.filename.contains("/torch/")) {
            if n_left > 0 {
                kept.push((&frame.name, &frame.filename, frame.line));
                n_left -= usize::from(is_shown(&frame.name, &frame.filename));
            }
        }
        let now: Vec<_> =
            cut.frames(entry.stack).map(|frame| (&frame.name, &frame.filename, frame.line)).collect();
        assert_eq!(now, kept);
    }
    assert!(cut.stacks.all_frames().len() < whole.stacks.all_frames().len());
}

#[test]
fn prefixes_are_stripped_the_longest_first() {
    let whole = with_frames();
    let path =
        whole.stacks.all_frames().map(|frame| frame.filename.clone()).find(|path| path.starts_with('/'));
    let path = path.unwrap();
    let (folder, name) = path.rsplit_once('/').unwrap();
    let slim = Slim::new().strip_prefix("/").strip_prefix(folder);
    let cut = slim.apply(whole).unwrap();
    assert!(cut.stacks.all_frames().any(|frame| &*frame.filename == name));
    assert!(cut.stacks.all_frames().all(|frame| !frame.filename.starts_with('/')));
}

#[test]
fn nothing_that_was_named_is_left() {
    let mut whole = with_frames();
    let mut json = serde_json::to_value(&whole).unwrap();
    json["device_traces"][0][0]["user_metadata"] = json!("secret project");
    json["device_traces"][0][1]["forward_frames"] = json!(["secret.py:7:secret"]);
    json["external_annotations"] = json!([{"stage": "START", "name": "secret", "device": 0, "time_us": 1}]);
    json["secret"] = json!("secret");
    whole = serde_json::from_value(json).unwrap();
    let slim = Slim::new().anonymise(true);
    let cut = slim.apply(whole.clone()).unwrap();
    let text = serde_json::to_string(&cut).unwrap();
    assert!(!text.contains("secret"));
    let of_pytorch = ["at::", "c10::", "torch::", "forward", "_call_impl", "_wrapped_call_impl", "<module>"];
    let is_of_pytorch = |frame: &Frame| {
        frame.filename.contains("/site-packages/torch/")
            || of_pytorch.iter().any(|of| frame.name.starts_with(of))
    };
    assert!(whole.stacks.all_frames().any(is_of_pytorch));
    for frame in whole.stacks.all_frames().filter(|frame| !is_of_pytorch(frame)) {
        assert!(!cut.stacks.all_frames().any(|other| other.name == frame.name), "{}", frame.name);
        let is_named = &*frame.filename != "??" && !frame.filename.is_empty();
        assert!(!is_named || !text.contains(&format!("\"{}\"", frame.filename)), "{}", frame.filename);
    }
    // Equal stacks stay equal and different ones different, so that questions have the same answers.
    assert_eq!(cut.stacks.len(), whole.stacks.len());
    assert_eq!(State::end(&cut, 0), State::end(&whole, 0));
}

/// Which frames of a stack tell who allocated does not hang on what they are called.
#[test]
fn stacks_without_names_are_as_readable() {
    for name in ["transformer_all_stacks", "resnet18_python_stacks"] {
        let path = repository(format!("fixtures/torch-2.11/snapshots/{name}.pickle"));
        let whole = pickle::load(path).unwrap();
        let slim = Slim::new().anonymise(true);
        let cut = slim.apply(whole.clone()).unwrap();
        let [before, after] = [&whole, &cut].map(|snapshot| {
            let shown = ShownFrames::new(snapshot);
            let stacks = snapshot.device_traces[0].iter().filter_map(|entry| entry.stack);
            stacks.map(|stack| [shown.members(stack).count(), shown.identifying(stack).count()]).collect()
        });
        let (before, after): (Vec<[usize; 2]>, Vec<[usize; 2]>) = (before, after);
        assert_eq!(before, after, "{name}");
        let [before_made, after_made] = [&whole, &cut].map(|snapshot| {
            let shown = ShownFrames::new(snapshot);
            let stacks = snapshot.device_traces[0].iter().filter_map(|entry| entry.stack);
            stacks.map(|stack| Made::of(&shown, stack)).collect::<Vec<_>>()
        });
        assert_eq!(before_made, after_made, "{name}");
        // Python has no frames in the threads of a backward pass.
        let is_native = name == "transformer_all_stacks";
        assert_eq!(before_made.contains(&Some(Made::Gradients)), is_native, "{name}");
        assert!(before_made.contains(&Some(Made::Activations)), "{name}");
        assert!(before.iter().any(|[shown, _]| *shown > 0), "{name}");
        let slim = slim.depth(3);
        let cut = slim.apply(whole.clone()).unwrap();
        let shown = ShownFrames::new(&cut);
        let stacks = cut.device_traces[0].iter().filter_map(|entry| entry.stack);
        let after: Vec<usize> = stacks.map(|stack| shown.members(stack).count()).collect();
        let before: Vec<usize> = before.iter().map(|[shown, _]| *shown.min(&3)).collect();
        assert_eq!(before, after, "{name}: three that are shown");
    }
}

#[test]
fn what_is_not_asked_for_stays() {
    let whole = with_frames();
    let same = Slim::new().apply(whole.clone()).unwrap();
    assert_eq!(serde_json::to_value(&same).unwrap(), serde_json::to_value(&whole).unwrap());
}

/// A file of PyTorch 2.0, whose blocks have `history` in place of `requested_size` and `frames`, after slimming.
fn of_torch_2_0(slim: &Slim) -> Vec<serde_json::Value> {
    let path = repository("fixtures/synthetic/torch-2.0.pickle");
    let slimmed = slim.apply(pickle::load(path).unwrap()).unwrap();
    let written = pickle::from_slice(&pickle::to_vec(&slimmed)).unwrap();
    let json = serde_json::to_value(&written).unwrap();
    let segments = json["segments"].as_array().unwrap();
    segments.iter().flat_map(|segment| segment["blocks"].as_array().unwrap().clone()).collect()
}

#[test]
fn blocks_of_torch_2_0_have_the_size_of_their_history() {
    let blocks = of_torch_2_0(&Slim::new().min_bytes(1 << 20));
    let active: Vec<_> = blocks.iter().filter(|block| block["state"] != "inactive").collect();
    assert_eq!(active.len(), 1, "{blocks:?}");
    assert_eq!(active[0]["history"][0]["real_size"], 20 << 20);
}

#[test]
fn stacks_in_the_history_of_torch_2_0_are_slimmed_too() {
    let names = |blocks: &[serde_json::Value]| -> Vec<String> {
        let uses = blocks.iter().flat_map(|block| block["history"].as_array().into_iter().flatten());
        let frames = uses.flat_map(|one| one["frames"].as_array().unwrap());
        frames.map(|frame| format!("{}:{}", frame["filename"], frame["name"]).replace('"', "")).collect()
    };
    let sizes = |blocks: &[serde_json::Value]| -> Vec<serde_json::Value> {
        blocks.iter().filter_map(|block| block.pointer("/history/0/real_size").cloned()).collect()
    };
    let whole = of_torch_2_0(&Slim::new());
    let of_main = |name: &&String| name.contains("/app/main.py");
    assert_eq!(names(&whole).iter().filter(of_main).count(), 2, "{:?}", names(&whole));
    let short = of_torch_2_0(&Slim::new().depth(1));
    assert_eq!(names(&short), ["/app/forward.py:forward"; 2]);
    let dropped = of_torch_2_0(&Slim::new().drop_path("forward"));
    assert_eq!(names(&dropped), ["/app/main.py:main"; 2]);
    let stripped = of_torch_2_0(&Slim::new().strip_prefix("/app"));
    assert_eq!(names(&stripped)[0], "forward.py:forward");
    let hidden = of_torch_2_0(&Slim::new().anonymise(true));
    assert_eq!(names(&hidden).len(), names(&whole).len());
    assert!(names(&hidden).iter().all(|name| !name.contains("main") && !name.contains("/app")));
    for blocks in [&short, &dropped, &stripped, &hidden] {
        assert_eq!(sizes(blocks), [600, 100, 20 << 20], "the sizes stay");
    }
}
