//! `memreel doctor`: what it finds out where parts are missing, broken or there.

#![forbid(unsafe_code)]

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::{Command, Output},
};

use serde_json::{Map, Value};
use tempfile::TempDir;

use crate::{
    json_lines::{schema, validator},
    record::{hook, libraries},
    repository,
    support::stdout,
};

/// Starts the doctor where nothing is but what `path` names.
fn doctor(words: &[&str], path: &Path, libraries: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memreel"));
    command.arg("doctor").args(words).env_clear().env("PATH", path);
    command.env("MEMREEL_PRELOAD", libraries).env("MEMREEL_PYTHON_HOOK", hook());
    command
}

/// Returns a folder with a few programs of the machine.
fn programs(names: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let found = ["/usr/bin", "/bin"].map(|place| Path::new(place).join(name));
        let found = found.into_iter().find(|path| path.is_file()).expect(name);
        symlink(found, folder.path().join(name)).unwrap();
    }
    folder
}

/// Returns the lines of `--json` by their parts.
fn parts(output: &Output) -> Map<String, Value> {
    let (schema, text) = (schema(), stdout(output));
    let validator = validator(&schema, "doctor");
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(validator.is_valid(&line), "{line}");
        (line["part"].as_str().unwrap().to_owned(), line)
    };
    text.lines().map(line).collect()
}

#[test]
fn where_nothing_is_each_line_says_what_to_do() {
    let empty = tempfile::tempdir().unwrap();
    let output = doctor(&[], empty.path(), Path::new("/nowhere")).env("COLUMNS", "100").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "the libraries of record are missing");
    let path = repository("fixtures/expected/doctor.txt");
    let text = stdout(&output);
    if std::env::var_os("MEMREEL_BLESS").is_some() {
        fs::write(&path, text.as_bytes()).unwrap();
    }
    assert_eq!(text, fs::read_to_string(path).unwrap());
}

#[test]
fn where_all_is_nothing_that_record_needs_is_missing() {
    let programs = programs(&["true", "sleep"]);
    // A folder for temporary files that is not there, or that others may change, is not used.
    let mut doctor = doctor(&["--json", "true"], programs.path(), &libraries());
    let output = doctor.env("TMPDIR", "/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    let parts = parts(&output);
    for part in ["record", "this program", "record --heap", "resident memory of processes", "view"] {
        assert_eq!(parts[part]["state"], "works", "{}", parts[part]);
    }
    assert!(parts["record"]["why"].as_str().unwrap().contains("libmemreel_preload.so"));
    let n_events = parts["record --heap"]["why"].as_str().unwrap().split(' ').nth(4).unwrap();
    assert!(n_events.parse::<u64>().unwrap() > 10, "{}", parts["record --heap"]);
    assert_eq!(parts["Python frames"]["state"], "not_known", "no python3 is in PATH");
}

#[test]
fn a_python_is_tried() {
    let Ok(found) = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output() else {
        println!("skipped: no python3");
        return;
    };
    let programs = programs(&["true", "sleep"]);
    symlink(stdout(&found).trim(), programs.path().join("python3")).unwrap();
    let frames = |command: &mut Command| parts(&command.output().unwrap())["Python frames"].clone();
    let found = frames(&mut doctor(&["--json"], programs.path(), &libraries()));
    assert_eq!(found["state"], "works", "{found}");
    let found =
        frames(doctor(&["--json"], programs.path(), &libraries()).env("MEMREEL_PYTHON_HOOK", "/nowhere"));
    assert_eq!(found["state"], "does_not_work", "{found}");
    assert!(found["what_to_do"].as_str().unwrap().contains("MEMREEL_PYTHON_HOOK=FOLDER"), "{found}");
    // An interpreter without memreel's hook and without frames.
    let script = programs.path().join("python3");
    fs::remove_file(&script).unwrap();
    fs::write(&script, "#!/bin/sh\nexit 3\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let found = frames(&mut doctor(&["--json"], programs.path(), &libraries()));
    assert_eq!(found["state"], "does_not_work", "{found}");
}

#[test]
fn libraries_that_the_loader_refuses_are_found_out() {
    let (programs, broken) = (programs(&["true", "sleep"]), tempfile::tempdir().unwrap());
    fs::write(broken.path().join("libmemreel_preload.so"), "text").unwrap();
    let output = doctor(&["--json"], programs.path(), broken.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let found = &parts(&output)["record"];
    assert_eq!(found["state"], "does_not_work");
    assert!(found["why"].as_str().unwrap().contains("cannot be preloaded"), "{found}");
}

#[test]
fn a_program_that_cannot_be_recorded_is_named() {
    let programs = programs(&["true", "sleep"]);
    let other = programs.path().join("other");
    fs::write(&other, b"\x7fELF\x01\x01\x01").unwrap();
    let of = |program: &str| {
        let output = doctor(&["--json", program], programs.path(), &libraries()).output().unwrap();
        (output.status.code(), parts(&output)["this program"]["why"].as_str().unwrap().to_owned())
    };
    let named = other.display().to_string();
    assert_eq!(of(&named), (Some(1), format!("{named} is not executable")));
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(of(&named), (Some(1), format!("{named} is a program for another architecture")));
    assert_eq!(of("missing"), (Some(1), "there is no program missing".to_owned()));
}

#[test]
fn a_program_without_the_loader_is_no_trial() {
    let programs = programs(&["sleep"]);
    let other = programs.path().join("true");
    fs::write(&other, b"\x7fELF\x01\x01\x01").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    let found = parts(&doctor(&["--json"], programs.path(), &libraries()).output().unwrap());
    for part in ["record", "GPU driver", "other processes on the GPU"] {
        assert_eq!(found[part]["state"], "not_known", "{}", found[part]);
        assert!(found[part]["why"].as_str().unwrap().ends_with("is a program for another architecture"));
    }
    assert_eq!(found["record --heap"]["state"], "works", "{}", found["record --heap"]);
}

#[test]
fn the_loader_is_asked_for_the_driver() {
    let programs = programs(&["true", "sleep"]);
    let source = programs.path().join("driver.c");
    fs::write(&source, "int memreel_test_of_the_doctor;").unwrap();
    for name in ["libcuda.so.1", "libnvidia-ml.so.1"] {
        let made =
            Command::new("cc").args(["-shared", "-o"]).arg(programs.path().join(name)).arg(&source).output();
        assert!(made.unwrap().status.success());
    }
    let mut command = doctor(&["--json"], programs.path(), &libraries());
    let found = parts(&command.env("LD_LIBRARY_PATH", programs.path()).output().unwrap());
    for (part, name) in [("GPU driver", "libcuda.so.1"), ("other processes on the GPU", "libnvidia-ml.so.1")]
    {
        let why = found[part]["why"].as_str().unwrap();
        assert!(why.starts_with(name) && why.contains("loads"), "{}", found[part]);
    }
}

#[test]
fn a_browser_needs_a_display() {
    let programs = programs(&["true", "sleep"]);
    let browser = |variables: &[(&str, &str)]| {
        let mut command = doctor(&["--json"], programs.path(), &libraries());
        let found = parts(&command.envs(variables.iter().copied()).output().unwrap())["browser"].clone();
        (found["state"] == "works", found["why"].as_str().unwrap().to_owned())
    };
    assert_eq!(browser(&[("DISPLAY", ":0")]), (false, "xdg-open is not in PATH".to_owned()));
    symlink("/bin/true", programs.path().join("xdg-open")).unwrap();
    assert!(browser(&[("DISPLAY", ":0")]).0 && browser(&[("WAYLAND_DISPLAY", "wayland-0")]).0);
    assert!(browser(&[("DISPLAY", ":0"), ("SSH_TTY", "/dev/pts/0")]).1.contains("SSH"));
    assert!(!browser(&[("DISPLAY", "")]).0);
}
