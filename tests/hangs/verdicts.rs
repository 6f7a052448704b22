//! Verdicts on failed requests, in processes that have no memory left for them.

use std::{fs, thread, time::Duration};

use memreel::{Action, Reel, device::Simulated, recorder::Recording};

use crate::own_process;

/// A verdict needs memory for the blocks too. Without it the error has none, and the program goes on.
#[test]
fn a_verdict_on_many_blocks_does_not_end_a_program_without_memory() {
    own_process::run(
        module_path!(),
        "a_verdict_on_many_blocks_does_not_end_a_program_without_memory",
        Duration::from_secs(120),
        || {
            let reel = Reel::builder().device(Simulated::new(200 << 20)).build().unwrap();
            let mut blocks = Vec::with_capacity(500_000);
            while blocks.len() < 400_000 {
                blocks.push(reel.alloc(512).unwrap());
            }
            let mut has_verdict = false;
            for more in (20..1000).step_by(60) {
                let size = fs::read_to_string("/proc/self/statm").unwrap();
                let pages: u64 = size.split(' ').next().unwrap().parse().unwrap();
                let limit =
                    libc::rlimit { rlim_cur: pages * 4096 + (more << 20), rlim_max: libc::RLIM_INFINITY };
                // SAFETY: a limit of this process, which runs this test alone.
                assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
                let error = reel.alloc(200 << 20).unwrap_err();
                has_verdict = error.out_of_memory().unwrap().verdict.is_some();
                if has_verdict {
                    break;
                }
                thread::sleep(Duration::from_millis(1050));
            }
            assert!(has_verdict);
        },
    );
}

/// An earlier failure of the same size is another one, also if this one is not recorded.
#[test]
fn a_verdict_is_of_its_own_request() {
    let reel = Reel::builder().device(Simulated::new(60 << 20)).history(Recording::all()).build().unwrap();
    let first = reel.alloc(40 << 20).unwrap();
    drop(reel.alloc(50 << 20).unwrap_err());
    drop(first);
    reel.empty_cache().unwrap();
    let _second = reel.alloc(24 << 20).unwrap();
    reel.record_history(&Recording::all().skip_actions([Action::Oom]));
    thread::sleep(Duration::from_millis(1050));
    let error = reel.alloc(50 << 20).unwrap_err();
    let verdict = error.out_of_memory().unwrap().verdict.as_ref().unwrap();
    assert!(verdict.text.contains("live                      24.00 MiB"), "{}", verdict.text);
}
