//! A frame source that takes a lock such as an interpreter's, and one that panics.

use std::{
    panic,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use memreel::{
    Reel,
    integrate::{FrameSource, SourceFrame},
    recorder::Recording,
};

use crate::own_process;

static GIL: Mutex<()> = Mutex::new(());

/// An interpreter whose names need its lock.
struct Python(Mutex<mpsc::Sender<()>>);

impl FrameSource for Python {
    fn capture(&self, words: &mut [usize]) -> usize {
        words[0] = 7;
        1
    }

    fn name(&self, _: usize) -> Vec<SourceFrame> {
        let _ = self.0.lock().unwrap().send(());
        let _gil = GIL.lock().unwrap();
        vec![SourceFrame { name: "f".into(), filename: "f.py".into(), line: 1 }]
    }
}

#[test]
fn a_source_may_wait_for_a_thread_that_takes_a_snapshot() {
    own_process::run(
        module_path!(),
        "a_source_may_wait_for_a_thread_that_takes_a_snapshot",
        Duration::from_secs(60),
        || {
            let reel = || Reel::builder().history(Recording::all()).build().unwrap();
            let (sender, naming) = mpsc::channel();
            let waits = reel();
            waits.recorder().set_frame_source(Arc::new(Python(Mutex::new(sender))));
            let _block = waits.alloc(1000).unwrap();
            let other = reel();
            let _other = other.alloc(1000).unwrap();
            let gil = GIL.lock().unwrap();
            let first = thread::spawn(move || waits.snapshot());
            // It is in `name` now, and waits for the lock that this thread has.
            naming.recv().unwrap();
            let (done, is_done) = mpsc::channel();
            thread::spawn(move || {
                drop(other.snapshot());
                done.send(()).unwrap();
            });
            is_done
                .recv_timeout(Duration::from_secs(40))
                .expect("a snapshot of another reel waits for the source");
            drop(gil);
            let snapshot = first.join().unwrap();
            let stack = snapshot.device_traces[0][0].stack;
            assert_eq!(&*snapshot.frames(stack).next().unwrap().name, "f");
        },
    );
}

/// A source that panics at a capture or at a name, while its switch for that is on.
#[derive(Default)]
struct Broken {
    at_capture: AtomicBool,
    n_captures: AtomicUsize,
}

impl FrameSource for Broken {
    fn capture(&self, words: &mut [usize]) -> usize {
        self.n_captures.fetch_add(1, Ordering::Relaxed);
        assert!(!self.at_capture.load(Ordering::Relaxed), "a capture");
        words[..2].copy_from_slice(&[8, 9]);
        2
    }

    fn name(&self, word: usize) -> Vec<SourceFrame> {
        assert_ne!(word, 8, "a name");
        vec![SourceFrame { name: format!("word {word}"), filename: "f.py".into(), line: 1 }]
    }
}

#[test]
fn a_source_that_panics_costs_its_frames_and_no_more() {
    own_process::run(
        module_path!(),
        "a_source_that_panics_costs_its_frames_and_no_more",
        Duration::from_secs(60),
        || {
            panic::set_hook(Box::new(|_| {}));
            let reel = Reel::builder().history(Recording::all()).build().unwrap();
            let source = Arc::new(Broken::default());
            reel.recorder().set_frame_source(source.clone());
            source.at_capture.store(true, Ordering::Relaxed);
            let without = reel.alloc(1000).expect("recording never fails upward");
            source.at_capture.store(false, Ordering::Relaxed);
            let with = reel.alloc(3000).unwrap();
            assert!(source.n_captures.load(Ordering::Relaxed) >= 2);
            let snapshot = reel.snapshot();
            let names = |bytes: u64| -> Vec<String> {
                let entry = snapshot.device_traces[0].iter().rfind(|entry| entry.size == bytes).unwrap();
                snapshot.frames(entry.stack).map(|frame| frame.name.to_string()).collect()
            };
            let (without_source, with_source) = (names(without.bytes()), names(with.bytes()));
            // Of two words one has a name.
            assert_eq!(with_source[0], "word 9", "{with_source:?}");
            assert_eq!(with_source[1..].len(), without_source.len(), "{without_source:?}");
            assert!(without_source[0].contains("sources"), "{without_source:?}");
        },
    );
}
