//! Interpreters of Python that end while threads without their lock allocate: states and frames are freed then.

#![forbid(unsafe_code)]

use std::path::Path;

use memreel_testing::interpreters;

use super::{live, program, record};

/// Daemon threads that stay in native code, and an end of the interpreter that takes a second.
const SCRIPT: &str = "
import atexit, ctypes, sys, threading, time
native = ctypes.CDLL(sys.argv[1])
if sys.argv[2] == 'cleared':
    atexit._clear()
class Slow:
    def __del__(self, use_again=native.use_again):
        use_again()
def daemon(then=native.work):
    native.keep()
    then()
threads = [threading.Thread(target=daemon, args=[native.keep]) for _ in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
[threading.Thread(target=daemon, daemon=True).start() for _ in range(8)]
sys.modules['slow'] = Slow()
time.sleep(.2)
print('ends')
";

#[test]
fn no_frame_is_read_of_an_interpreter_that_ends() {
    let all = interpreters();
    if all.is_empty() {
        println!("skipped: no interpreter of CPython 3.9 or later");
    }
    let newest = all.len().saturating_sub(1);
    for (i, (version, python)) in all.into_iter().enumerate() {
        assert_ends(&version, &python, "-u", "kept");
        if i == newest {
            // Without `sitecustomize`, and with an `atexit` that forgets its functions.
            assert_ends(&version, &python, "-I", "kept");
            assert_ends(&version, &python, "-u", "cleared");
        }
    }
}

fn assert_ends(version: &str, python: &Path, option: &str, what: &str) {
    let python = python.display().to_string();
    let words = [&python, option, "-c", SCRIPT, &program("libnative.so"), what];
    let run = record(&["--heap", "--stacks", "all", "-o", "run.pickle"], &words);
    let run = run.env("MALLOC_PERTURB_", "165").run();
    assert_eq!(
        (run.status, &*run.out),
        (Some(0), "ends\n"),
        "CPython {version} {option} {what}: {}",
        run.err
    );
    let snapshot = run.snapshot("run.pickle");
    let kept: Vec<_> = live(&snapshot).filter(|block| block.requested_size == 123_456).collect();
    let has_frame = |stack| snapshot.stacks.frames(stack).any(|frame| &*frame.name == "daemon");
    let with_frame = kept.iter().filter(|block| block.stack.is_some_and(has_frame));
    let n = (kept.len(), with_frame.count());
    assert_eq!(n, (12, 12), "CPython {version} {option} {what}: threads without the lock have frames");
}
