//! Runs a test in a separate process with a time limit, for tests that could hang or abort the suite.
#![forbid(unsafe_code)]

use std::{
    env, fs,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

const CHILD: &str = "MEMREEL_TEST_IN_OWN_PROCESS";

/// Runs `test` in a child process; fails if it fails or takes longer than the limit.
///
/// `module` is `module_path!()` and `name` the name of the calling test, which the child runs again.
pub fn run(module: &str, name: &str, limit: Duration, test: impl FnOnce()) {
    let Some((status, printed)) = output(module, name, limit, Path::new("."), &[], test) else { return };
    assert!(status.success(), "{status}\n{printed}");
    assert!(printed.contains("1 passed"), "{name} is not the name of a test: {printed}");
}

/// Runs `test` in a child process, in a folder and with additional environment variables. Returns its status and its
/// output; `None` in the child.
pub fn output(
    module: &str,
    name: &str,
    limit: Duration,
    folder: &Path,
    variables: &[(&str, &str)],
    test: impl FnOnce(),
) -> Option<(ExitStatus, String)> {
    if env::var(CHILD).is_ok_and(|child| child == name) {
        test();
        return None;
    }
    let (_, module) = module.split_once("::").expect("a module of this crate");
    // A file instead of a pipe, because a child of the child may keep it open.
    let printed = tempfile::NamedTempFile::new().unwrap();
    let out = printed.reopen().unwrap();
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", &format!("{module}::{name}"), "--nocapture", "--test-threads=1"])
        .env(CHILD, name)
        .envs(variables.iter().copied())
        .current_dir(folder)
        // Both share one file offset, because they would otherwise overwrite each other.
        .stdout(out.try_clone().unwrap())
        .stderr(out)
        // The child and its children are one group, which is killed as a whole.
        .process_group(0)
        .spawn()
        .unwrap();
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if Instant::now() >= end {
            let killed = Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status();
            assert!(killed.is_ok_and(|status| status.success()), "{name} hangs, and cannot be killed");
            child.wait().unwrap();
            break None;
        }
        thread::sleep(Duration::from_millis(5));
    };
    let printed = String::from_utf8_lossy(&fs::read(printed.path()).unwrap()).into_owned();
    let status = status.unwrap_or_else(|| panic!("{name} hangs: it did not end within {limit:?}\n{printed}"));
    Some((status, printed))
}
