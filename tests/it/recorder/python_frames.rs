//! Frames of Python and marks: which stacks have them, where a snapshot puts them, and what a tape keeps of them.
#![forbid(unsafe_code)]

use std::{hint::black_box, sync::Arc};

use memreel::{
    Action, Recovered, Reel,
    device::Simulated,
    integrate::{FrameSource, MarkedFrames, SourceCode, SourceFrame, mark},
    recorder::{Recording, StackKind},
    snapshot::Snapshot,
};

/// Three frames of Python, innermost first, in two functions.
struct Python;

const INNER: usize = 1 << 32;
const OUTER: usize = 2 << 32;

impl FrameSource for Python {
    fn capture(&self, words: &mut [usize]) -> usize {
        words[..3].copy_from_slice(&[INNER, OUTER + 2, OUTER]);
        3
    }

    fn name(&self, word: usize) -> Vec<SourceFrame> {
        let code = self.code(word).unwrap();
        // As in the table: the second instruction is two lines further on.
        let line = code.first_line + word as u32;
        vec![SourceFrame { name: code.name, filename: code.filename, line }]
    }

    fn joins_native(&self) -> bool {
        false
    }

    fn capture_for_native(&self, _: &mut [usize]) -> usize {
        0
    }

    fn is_python(&self, _: usize) -> bool {
        true
    }

    fn code(&self, word: usize) -> Option<SourceCode> {
        let (name, first_line) = if word >> 32 == 1 { ("inner", 10) } else { ("outer", 20) };
        Some(SourceCode {
            name: name.into(),
            qualname: format!("C.{name}"),
            filename: "train.py".into(),
            first_line,
            version: 9,
            line_table: vec![2, 2],
        })
    }
}

#[inline(never)]
#[expect(non_snake_case, reason = "CPython's name")]
fn PyEval_EvalFrameDefault(end: &mut dyn FnMut()) {
    end();
    black_box(());
}

/// Allocates where the interpreter's loop runs twice, around native code.
fn allocate(reel: &Reel) {
    let mut alloc = || drop(reel.alloc(1000).unwrap());
    PyEval_EvalFrameDefault(&mut || PyEval_EvalFrameDefault(&mut alloc));
}

fn reel(history: Recording, source: Arc<dyn FrameSource>) -> Reel {
    let reel = Reel::builder().device(Simulated::new(1 << 30)).history(history).build().unwrap();
    assert!(reel.recorder().set_frame_source(source));
    reel
}

/// The frames of the newest allocation, as `name:line`.
fn frames(snapshot: &Snapshot) -> Vec<String> {
    let is_alloc = |entry: &&memreel::snapshot::TraceEntry| entry.action == Some(Action::Alloc);
    let alloc = snapshot.device_traces[0].iter().rfind(is_alloc).unwrap();
    let told = |frame: &memreel::snapshot::Frame| match frame.filename.ends_with("train.py") {
        true => format!("{}:{}", frame.name, frame.line),
        false => frame.name.to_string(),
    };
    snapshot.frames(alloc.stack).map(told).collect()
}

/// How many frames are those of [`Python`].
fn n_python(frames: &[String]) -> usize {
    frames.iter().filter(|name| ["inner:10", "outer:22", "outer:20"].contains(&name.as_str())).count()
}

#[test]
fn a_python_frame_is_before_each_loop_of_the_interpreter_and_the_rest_at_the_end() {
    let reel = reel(Recording::all().stacks(StackKind::All), Arc::new(Python));
    allocate(&reel);
    let frames = frames(&reel.snapshot());
    let loops: Vec<usize> = (0..frames.len()).filter(|i| frames[*i].contains("PyEval_EvalFrame")).collect();
    assert_eq!(loops.len(), 2, "{frames:#?}");
    assert_eq!([&*frames[loops[0] - 1], &*frames[loops[1] - 1]], ["inner:10", "outer:22"], "{frames:#?}");
    assert_eq!(frames.last().unwrap(), "outer:20");
    assert!(loops[0] > 1, "native frames are further inside: {frames:#?}");
}

#[test]
fn the_kind_of_stacks_decides_which_frames_there_are() {
    for (stacks, wanted, has_native) in [
        (StackKind::Native, 0, true),
        (StackKind::Python, 3, false),
        (StackKind::All, 3, true),
        (StackKind::None, 0, false),
    ] {
        let reel = reel(Recording::all().stacks(stacks), Arc::new(Python));
        allocate(&reel);
        let frames = frames(&reel.snapshot());
        let n = n_python(&frames);
        assert_eq!((n, frames.len() > n), (wanted, has_native), "{stacks:?}: {frames:#?}");
    }
}

#[test]
fn a_mark_is_innermost_in_every_kind_of_stack() {
    for stacks in [StackKind::Native, StackKind::Python, StackKind::All] {
        let reel = reel(Recording::all().stacks(stacks), MarkedFrames::new(Some(Arc::new(Python))));
        allocate(&reel);
        assert_ne!(frames(&reel.snapshot())[0], "driver:module", "{stacks:?}");
        let mark = mark("driver:module");
        allocate(&reel);
        let marked = frames(&reel.snapshot());
        assert_eq!(marked[0], "driver:module", "{stacks:?}");
        drop(mark);
        allocate(&reel);
        assert_eq!(frames(&reel.snapshot())[..], marked[1..], "{stacks:?}");
    }
}

/// The file of a tape is read while the recorder still has it, as after a kill.
#[test]
fn a_tape_has_the_names_of_python_frames_and_marks_when_their_event_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..20 {
        let path = folder.path().join(format!("{n}.tape"));
        let history = Recording::all().stacks(StackKind::All).tape(&path);
        let reel = reel(history, MarkedFrames::new(Some(Arc::new(Python))));
        let mark = mark("driver:graph");
        allocate(&reel);
        // At once: the keeper has had no time.
        let copy = folder.path().join("copy.tape");
        std::fs::copy(&path, &copy).unwrap();
        drop(mark);
        let recovered = frames(&Recovered::read(&copy).unwrap().snapshot());
        assert_eq!(recovered, frames(&reel.snapshot()));
        assert_eq!(recovered[0], "driver:graph");
        assert_eq!(n_python(&recovered), 3, "{recovered:#?}");
    }
}
