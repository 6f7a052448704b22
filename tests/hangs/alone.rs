//! A test in a process of its own with a time limit.

use std::{
    env, fs,
    os::unix::process::CommandExt,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use memreel::{
    Snapshot,
    validate::{Severity, validate},
};

const ALONE: &str = "MEMREEL_TEST_ALONE";

/// Runs `body` in a process of its own, which has `seconds` seconds; `test` is the full name of the calling test.
pub(crate) fn alone(test: &str, seconds: u64, body: impl FnOnce()) {
    if env::var_os(ALONE).is_some() {
        return body();
    }
    let printed = tempfile::NamedTempFile::new().unwrap();
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .stdout(printed.reopen().unwrap())
        .stderr(printed.reopen().unwrap())
        // With its own children it is one group, which is killed as a whole.
        .process_group(0)
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(seconds);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if Instant::now() > end {
            let group = -i32::try_from(child.id()).unwrap();
            // SAFETY: a signal to the group of a process that was not waited for.
            unsafe { libc::kill(group, libc::SIGKILL) };
            child.wait().unwrap();
            break None;
        }
        thread::sleep(Duration::from_millis(5));
    };
    let printed = fs::read_to_string(printed.path()).unwrap_or_default();
    let status = status.unwrap_or_else(|| panic!("{test} hangs: it did not end in {seconds} s\n{printed}"));
    assert!(status.success() && printed.contains("1 passed"), "{status}\n{printed}");
}

/// Fails if a snapshot breaks a rule. That its ring lost events, or that scopes are open, is no error.
pub(crate) fn assert_sound(snapshot: &Snapshot) {
    let mut findings = validate(snapshot);
    findings.retain(|finding| finding.severity == Severity::Error);
    assert!(findings.is_empty(), "{findings:?}");
}
