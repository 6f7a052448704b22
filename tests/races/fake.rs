//! The driver without a GPU: compiled, loaded, and asked what it found.

use std::{
    env,
    ffi::{CStr, OsString, c_char},
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{self, Command},
};

const STARTED: &str = "MEMREEL_RACES_STARTED";

/// Starts this program again so that `libcuda.so.1` is the driver of this folder; returns in the new program.
pub(crate) fn start_again() {
    if env::var_os(STARTED).is_some() {
        return;
    }
    let folder = build();
    let mut path = OsString::from(&folder);
    if let Some(old) = env::var_os("LD_LIBRARY_PATH") {
        path.push(":");
        path.push(old);
    }
    let this = env::current_exe().unwrap();
    let error = Command::new(this)
        .args(env::args_os().skip(1))
        .env(STARTED, "1")
        // Those of the folder fill the GPU that they were recorded on, which had less memory than this one.
        .env_remove("MEMREEL_SCENARIOS")
        .env("RUST_BACKTRACE", "0")
        .env("LD_LIBRARY_PATH", path)
        .exec();
    panic!("{error}");
}

/// Compiles the driver under the two names by which it is looked for; returns their folder.
fn build() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("driver");
    fs::create_dir_all(&folder).unwrap();
    let library = folder.join(format!("building-{}.so", process::id()));
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/races/driver/mod.rs");
    let mut command = Command::new(rustc);
    command.args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "cuda", "-Copt-level=2"]);
    let output = command.arg(source).arg("-o").arg(&library).output().expect("rustc is on the path");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Renamed, because another run of this program may have the old file mapped. cudarc and memreel look for
    // these two names; the loader knows them as one file.
    let name = folder.join("libcuda.so.1");
    fs::rename(library, &name).unwrap();
    let other = folder.join(format!("linking-{}.so", process::id()));
    fs::hard_link(&name, &other).unwrap();
    fs::rename(&other, folder.join("libcuda.so")).unwrap();
    folder
}

fn function(name: &CStr) -> *mut libc::c_void {
    // SAFETY: both names end in nul. The driver stays loaded.
    let function = unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null(), "the driver is not on the loader's path");
        libc::dlsym(library, name.as_ptr())
    };
    assert!(!function.is_null(), "{name:?} is missing: a real driver was loaded");
    function
}

/// Starts with new devices.
pub(crate) fn reset(n_devices: u64, bytes: u64) {
    // SAFETY: the function has this type.
    let call: extern "C" fn(u64, u64) = unsafe { std::mem::transmute(function(c"fake_reset")) };
    call(n_devices, bytes);
}

/// Returns the text of one of the driver's functions.
fn text(name: &CStr) -> String {
    // SAFETY: the function has this type.
    let call: unsafe extern "C" fn(*mut u8, usize) -> usize = unsafe { std::mem::transmute(function(name)) };
    let mut text = vec![0; 1 << 14];
    // SAFETY: the vector has this length.
    let n = unsafe { call(text.as_mut_ptr(), text.len()) };
    text.truncate(n);
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the rules that were broken since the last call, a line each.
pub(crate) fn violations() -> String {
    text(c"fake_violations")
}

/// Returns what of the driver is still alive.
pub(crate) fn alive() -> String {
    text(c"fake_alive")
}

#[track_caller]
pub(crate) fn assert_clean() {
    let violations = violations();
    assert!(violations.is_empty(), "{violations}");
}

/// Lets calls of a driver's function fail.
pub(crate) fn fail(name: &CStr, n_passed: u64, n_failing: u64, code: u32) {
    // SAFETY: the function has this type.
    let call: unsafe extern "C" fn(*const c_char, u64, u64, u32) =
        unsafe { std::mem::transmute(function(c"fake_fail")) };
    // SAFETY: the name ends in nul.
    unsafe { call(name.as_ptr(), n_passed, n_failing, code) }
}

/// Ends all failures, and returns how many calls did not fail that should have.
pub(crate) fn end_failures() -> u64 {
    // SAFETY: the function has this type.
    let call: extern "C" fn() -> u64 = unsafe { std::mem::transmute(function(c"fake_end_failures")) };
    call()
}

/// Lets work finish at random when the program asks; 0: only when it waits.
pub(crate) fn progress(seed: u64) {
    // SAFETY: the function has this type.
    let call: extern "C" fn(u64) = unsafe { std::mem::transmute(function(c"fake_progress")) };
    call(seed);
}
