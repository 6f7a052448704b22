//! The shared libraries of the workspace, built for tests. Cargo does not build a `cdylib` for a test.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
};

/// Builds packages with the profile and in the target folder of the running test, once, and returns the folder of their
/// libraries.
///
/// # Panics
/// A package does not compile.
pub fn built(packages: &[&'static str]) -> PathBuf {
    static BUILT: Mutex<BTreeSet<Vec<&str>>> = Mutex::new(BTreeSet::new());
    let test = env::current_exe().unwrap();
    // Test programs are in `deps`, below the folder of their profile.
    let folder = test.ancestors().nth(2).unwrap().to_owned();
    let mut all = BUILT.lock().unwrap();
    if !all.contains(packages) {
        build(packages, &folder);
        all.insert(packages.to_vec());
    }
    folder
}

/// Returns the target that this test was built for with `--target`, which is in the path of the test; `None` without that option.
pub fn triple() -> Option<String> {
    let test = env::current_exe().unwrap();
    let name = test.ancestors().nth(3).and_then(Path::file_name).and_then(OsStr::to_str);
    name.filter(|name| name.contains("-linux-")).map(str::to_owned)
}

fn build(packages: &[&str], folder: &Path) {
    let profile = match folder.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        name => name,
    };
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["build", "--quiet", "--profile", profile, "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"));
    let triple = triple();
    let target = folder.ancestors().nth(if triple.is_some() { 2 } else { 1 }).unwrap();
    let built = command
        .args(triple.iter().flat_map(|triple| ["--target", triple]))
        .arg("--target-dir")
        .arg(target)
        .args(packages.iter().flat_map(|package| ["-p", package]))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}
