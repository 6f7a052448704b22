//! Children of a process whose threads allocate.

use std::{
    hint::black_box,
    sync::{atomic::AtomicBool, mpsc},
    thread,
    time::Duration,
};

use memreel::recorder::{Context, Recording};

use crate::{
    own_process,
    taken::{later_snapshot, live_at},
    threads::{IsOver, churn},
};

const LIMIT: Duration = Duration::from_secs(180);

/// Runs in a child, whose parent has eight other threads.
fn in_child(kept: Vec<u8>) -> bool {
    let address = kept.as_ptr().addr();
    let was_live = live_at(&later_snapshot(), address) == Some(kept.len() as u64);
    drop(kept);
    let own = black_box(vec![1_u8; 999]);
    let snapshot = later_snapshot();
    was_live && live_at(&snapshot, own.as_ptr().addr()) == Some(999)
}

#[test]
fn children_of_eight_threads_find_a_sound_heap() {
    own_process::run(module_path!(), "children_of_eight_threads_find_a_sound_heap", LIMIT, || {
        memreel::record_history(&Recording::all().max_entries(200_000)).unwrap();
        drop(later_snapshot());
        let (is_over, (sender, receiver)) = (AtomicBool::new(false), mpsc::sync_channel(100));
        thread::scope(|scope| {
            let is_over = &is_over;
            let _ends = IsOver(is_over);
            for seed in 1..=8 {
                let sender = sender.clone();
                scope.spawn(move || churn(seed, is_over, &sender));
            }
            scope.spawn(move || while receiver.recv().is_ok() {});
            drop(sender);
            for n in 0..16 {
                // Names take seconds in a build for tests, and each child looks them up anew.
                let context = if n == 7 { Context::All } else { Context::None };
                let history = Recording::all().max_entries(200_000).context(context);
                memreel::record_history(&history.clear_history(true)).unwrap();
                let kept = black_box(vec![1_u8; 8000 + n]);
                // SAFETY: the child takes snapshots and ends; it is waited for once.
                unsafe {
                    let child = libc::fork();
                    if child == 0 {
                        libc::_exit(i32::from(!in_child(kept)));
                    }
                    let mut status = 0;
                    assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                    assert_eq!(status, 0, "child {n}");
                }
            }
        });
        drop(later_snapshot());
    });
}
