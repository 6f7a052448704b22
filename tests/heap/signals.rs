//! Signal handlers that allocate where they interrupt the recorder.

use std::{
    hint::black_box,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use memreel::recorder::Recording;

use crate::{own_process, system::is_inside, taken::later_snapshot};

const LIMIT: Duration = Duration::from_secs(60);

static N_HANDLED: AtomicUsize = AtomicUsize::new(0);

/// Allocates and frees, unless the system's allocator was interrupted.
extern "C" fn handler(_: libc::c_int) {
    if !is_inside() {
        N_HANDLED.fetch_add(1, Ordering::Relaxed);
        let mut block = black_box(vec![1_u8; 100]);
        block.resize(300, 1);
        drop(black_box(block));
    }
}

#[test]
fn a_handler_may_allocate_where_it_interrupts_the_recorder() {
    own_process::run(
        module_path!(),
        "a_handler_may_allocate_where_it_interrupts_the_recorder",
        LIMIT,
        || {
            memreel::record_history(&Recording::all().max_entries(300_000)).unwrap();
            // SAFETY: a handler that allocates outside of the system's allocator only; the action is zeroed but for it.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler as extern "C" fn(libc::c_int) as usize;
                action.sa_flags = libc::SA_RESTART;
                assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
            }
            // SAFETY: the number of this thread, which lives until the other one has ended.
            let this = unsafe { libc::pthread_self() };
            let until = Instant::now() + Duration::from_secs(3);
            thread::scope(|scope| {
                scope.spawn(move || {
                    while Instant::now() < until {
                        // SAFETY: the thread lives.
                        unsafe { libc::pthread_kill(this, libc::SIGUSR1) };
                        thread::sleep(Duration::from_micros(50));
                    }
                });
                let mut kept = Vec::new();
                while Instant::now() < until {
                    kept.push(black_box(vec![1_u8; 1 + kept.len() * 7]));
                    if kept.len() == 100 {
                        kept.clear();
                    }
                }
            });
            assert!(N_HANDLED.load(Ordering::Relaxed) > 500, "{N_HANDLED:?}");
            let snapshot = memreel::snapshot().unwrap();
            assert!(!snapshot.device_traces[1].is_empty());
            memreel::record_history(&Recording::all().clear_history(true)).unwrap();
            drop(black_box(vec![1_u8; 100]));
            drop(later_snapshot());
        },
    );
}
