//! Many threads that allocate while snapshots are taken.

use std::{
    hint::black_box,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use memreel::{
    DeviceId,
    analysis::DeviceHistory,
    recorder::{Context, Recording},
};

use crate::{own_process, taken::later_snapshot};

const LIMIT: Duration = Duration::from_secs(180);

/// Ends the threads of a test when it is dropped, also by a failure.
pub(crate) struct IsOver<'a>(pub(crate) &'a AtomicBool);

impl Drop for IsOver<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Allocates, keeps, resizes and frees blocks, some of which another thread frees, until it is stopped.
pub(crate) fn churn(seed: u64, is_over: &AtomicBool, others: &mpsc::SyncSender<Vec<u8>>) {
    let (mut kept, mut state) = (Vec::new(), seed);
    while !is_over.load(Ordering::Relaxed) {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        let bytes = 1 + (state >> 33) as usize % 600;
        match state >> 60 {
            0..6 => kept.push(black_box(vec![1_u8; bytes])),
            6 => _ = others.try_send(black_box(vec![1_u8; bytes])),
            7..9 => {
                if let Some(last) = kept.last_mut() {
                    last.resize(bytes, 0);
                }
            }
            _ => drop(kept.pop()),
        }
        // Also where one thread has the processor for long, events do not fill the ring at once.
        if state >> 54 & 15 == 0 {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn snapshots_of_64_threads_agree_with_their_events() {
    own_process::run(module_path!(), "snapshots_of_64_threads_agree_with_their_events", LIMIT, || {
        memreel::record_history(&Recording::all().context(Context::Alloc)).unwrap();
        let (is_over, (sender, receiver)) = (AtomicBool::new(false), mpsc::sync_channel(100));
        thread::scope(|scope| {
            let is_over = &is_over;
            let _ends = IsOver(is_over);
            for seed in 1..=64 {
                let sender = sender.clone();
                scope.spawn(move || churn(seed, is_over, &sender));
            }
            scope.spawn(move || while receiver.recv().is_ok() {});
            drop(sender);
            for n in 0..12 {
                let snapshot = later_snapshot();
                let history = DeviceHistory::new(&snapshot, DeviceId(1));
                assert_eq!(history.trust().n_contradictions, 0, "{:?}", history.trust());
                // Names take seconds in a build for tests.
                let context = if n % 5 == 4 { Context::Alloc } else { Context::None };
                memreel::record_history(&Recording::all().context(context).clear_history(true)).unwrap();
                thread::sleep(Duration::from_millis(20));
            }
        });
    });
}
