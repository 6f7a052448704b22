//! Runs a test in a process of its own with a time limit, for what could hang or abort the suite.

use std::{
    env,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const CHILD: &str = "MEMREEL_TEST_IN_OWN_PROCESS";

/// Runs `test` in a child process; fails if that fails or takes longer than the limit.
///
/// `module` is `module_path!()` and `name` the name of the calling test, which the child runs again.
pub(crate) fn run(module: &str, name: &str, limit: Duration, test: impl FnOnce()) {
    if env::var(CHILD).is_ok_and(|child| child == name) {
        return test();
    }
    let (_, module) = module.split_once("::").expect("a module of this crate");
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", &format!("{module}::{name}"), "--nocapture"])
        .env(CHILD, name)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let end = Instant::now() + limit;
    let mut is_late = false;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() >= end {
            is_late = true;
            child.kill().unwrap();
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    let child = child.wait_with_output().unwrap();
    let text =
        [child.stdout, child.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(!is_late, "{name} did not end within {limit:?}: {text}");
    assert!(child.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{name} is not the name of a test: {text}");
}
