//! A tape that begins while stacks have words of a source, which are named in the tape's file at a capture.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use memreel::{
    Recovered,
    integrate::{FrameSource, SourceFrame},
    recorder::Recording,
};

use crate::own_process;

const LIMIT: Duration = Duration::from_secs(60);

/// Each capture has a new word.
struct Words(AtomicUsize);

impl FrameSource for Words {
    fn capture(&self, words: &mut [usize]) -> usize {
        words[0] = self.0.fetch_add(1, Ordering::Relaxed);
        1
    }

    fn name(&self, word: usize) -> Vec<SourceFrame> {
        vec![SourceFrame { name: format!("word {word}"), filename: "words".into(), line: 1 }]
    }

    fn names_at_once(&self, _: usize) -> bool {
        true
    }
}

/// A note that is written meanwhile allocates. A capture of its stack would write a note too, and wait for the first.
#[test]
fn a_tape_begins_without_a_capture_of_its_own_notes() {
    own_process::run(module_path!(), "a_tape_begins_without_a_capture_of_its_own_notes", LIMIT, || {
        let folder = tempfile::tempdir().unwrap();
        let tape = folder.path().join("run.tape");
        memreel::record_history(&Recording::all()).unwrap();
        let reel = memreel::default_reel().unwrap();
        assert!(reel.recorder().set_frame_source(Arc::new(Words(AtomicUsize::new(1)))));
        memreel::record_history(&Recording::all().tape(&tape)).unwrap();
        std::hint::black_box(vec![1_u8; 12_345]);
        memreel::record_history(&Recording::off()).unwrap();
        let snapshot = Recovered::read(&tape).unwrap().snapshot();
        let mut events = snapshot.device_traces.iter().flatten();
        let entry = events.find(|entry| entry.size == 12_345).unwrap();
        assert!(snapshot.frames(entry.stack).any(|frame| frame.name.starts_with("word ")));
    });
}
