//! What the program finds in its environment, beside what users preload, and programs that nothing can be loaded into.

#![forbid(unsafe_code)]

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown},
    process::Command,
};

use memreel::integrate;

use super::{Start, cc, hook, libraries, live_from, program, record, source};

/// A user and a group that have no rights.
const NOBODY: u32 = 65_534;

fn printed(options: &[&str], names: &[&str], variables: &[(&str, &str)]) -> Vec<String> {
    let start = record(options, &[&["printenv"], names].concat());
    let run = variables.iter().fold(start, |start, (name, value)| start.env(name, value)).run();
    run.out.lines().map(str::to_owned).collect()
}

fn library(name: &str) -> String {
    libraries().join(name).canonicalize().unwrap().display().to_string()
}

#[test]
fn what_users_preload_and_import_is_kept() {
    let shim = program("libshim.so");
    let names = ["LD_PRELOAD", "PYTHONPATH", "MEMREEL"];
    let users = [("LD_PRELOAD", &*shim), ("PYTHONPATH", "/one:/two")];
    let preload = library("libmemreel_preload.so");
    let python = hook();
    let lines = printed(&[], &names, &users);
    assert_eq!(lines[0], format!("{preload}:{shim}"));
    assert_eq!(lines[1], format!("{}:/one:/two", python.display()));
    assert_eq!(lines[2], "all");
    let heap = library("libmemreel_heap.so");
    let lines = printed(&["--heap", "--ring", "77", "--stacks", "native"], &names, &users);
    assert_eq!(lines[0], format!("{preload}:{heap}:{shim}"));
    assert_eq!(lines[2], "all,stacks=native,ring=77");
    let lines =
        printed(&["--no-torch"], &["PYTHONPATH", "MEMREEL_TORCH"], &[("PYTHONPATH", "/one"), users[0]]);
    assert_eq!(lines, [format!("{}:/one", python.display()), "0".to_owned()], "Python frames are checked");
    let lines = printed(&[], &["MEMREEL"], &[("MEMREEL", "state, min_size=1KiB")]);
    assert_eq!(lines, ["state, min_size=1KiB"], "what the user's variable says is kept");
    let tick = integrate::tick().map(|ns| ns as f64);
    let passed_on = printed(&[], &["MEMREEL_TICK"], &[]).first().map(|ns| ns.parse::<f64>().unwrap());
    assert!(
        tick.zip(passed_on).is_none_or(|(ns, passed_on)| (ns / passed_on - 1.0).abs() < 1e-3),
        "{tick:?} {passed_on:?}"
    );
    assert_eq!(tick.is_some(), passed_on.is_some());
}

/// Without its hook, a recording lacks what Python knows.
#[test]
fn a_missing_hook_is_reported() {
    let run = record(&["--heap"], &["printenv", "PYTHONPATH"]);
    let run = run.env("MEMREEL_PYTHON_HOOK", "/no/such/folder").run();
    assert_eq!((run.status, &*run.out), (Some(1), ""), "{}", run.err);
    let first = run.err.lines().next().unwrap();
    assert!(
        first.starts_with("memreel: the Python hook sitecustomize.py was not found (/no/such/folder), "),
        "{first}"
    );
    assert!(!record(&[], &["true"]).run().err.contains("hook"));
}

/// A sitecustomize of the user's still runs.
#[test]
fn python_programs_import_what_they_did() {
    let Some(python) = super::python() else { return };
    let start = record(&[], &[&*python, "-c", "import user_module, sys; print('main', sys.argv)", "x"]);
    let folder = start.path("imports");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("sitecustomize.py"), "print('customised')").unwrap();
    fs::write(folder.join("user_module.py"), "print('imported')").unwrap();
    let run = start.env("PYTHONPATH", &folder).run();
    assert_eq!((run.status, &*run.out), (Some(0), "customised\nimported\nmain ['-c', 'x']\n"), "{}", run.err);
}

#[test]
fn a_run_within_a_run_preloads_once() {
    let memreel = env!("CARGO_BIN_EXE_memreel");
    let names = ["LD_PRELOAD", "PYTHONPATH"];
    let once = printed(&["--heap"], &names, &[]);
    let run =
        record(&["--heap"], &[&[memreel, "record", "--heap", "--", "printenv"], &names[..]].concat()).run();
    assert_eq!(run.status, Some(0), "{}", run.err);
    assert_eq!(run.out.lines().collect::<Vec<_>>(), once);
    let idle = record(&[], &[memreel, "record", "--", "true"]).run();
    assert_eq!(idle.status, Some(0), "{}", idle.err);
    assert!(idle.files().is_empty(), "{:?}", idle.files());
}

/// An allocator that the user preloads is behind ours, and serves. One that is put in front of ours is left alone.
#[test]
fn an_allocator_of_the_user_serves_behind_and_in_front() {
    let (shim, counting) = (program("libshim.so"), program("counting"));
    // The file has the messages of this program alone: memreel itself has the user's allocator too.
    let script = format!("exec {counting} 2>messages");
    let run = record(&["--heap", "-o", "run.pickle"], &["sh", "-c", &script]).env("LD_PRELOAD", &shim).run();
    assert_eq!(run.status, Some(0), "{}", run.err);
    let messages = fs::read_to_string(run.folder.path().join("messages")).unwrap();
    assert!(messages.contains("shim served"), "{messages}");
    // The shell was recorded before it became the program, and has a number.
    assert_eq!(live_from(&run.snapshot("run.pickle"), 100_000), run.counted());
    run.snapshot("run-1.pickle");
    let script = format!("LD_PRELOAD={shim}:$LD_PRELOAD exec {counting}");
    let run = record(&["--heap", "-o", "run.pickle"], &["sh", "-c", &script]).run();
    assert_eq!(run.status, Some(0), "{}", run.err);
    assert!(run.counted().0 > 50 && run.err.contains("shim served"), "{} {}", run.out, run.err);
    run.snapshot("run.pickle");
}

#[test]
fn a_static_program_runs_unrecorded() {
    let start = record(&["--heap"], &["./alone", "secure"]);
    let alone = start.path("alone");
    let made = Command::new("cc").args(["-w", "-static", "-o"]).arg(&alone).arg(source("program.c")).output();
    if !made.unwrap().status.success() {
        println!("skipped: no static C library");
        return;
    }
    let run = start.run();
    assert_eq!((run.status, &*run.out), (Some(5), "0\n"));
    assert_eq!(
        run.err,
        "memreel: ./alone is statically linked, so no library can be preloaded; it is not recorded\n\
         memreel: alone allocated nothing to record\n"
    );
    assert_eq!(run.files(), ["alone"]);
}

/// The loader is a program without a loader, and what it starts is recorded.
#[test]
fn a_program_that_the_loader_is_given_is_recorded() {
    let loaders = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
    let Some(loader) = loaders.into_iter().find(|path| fs::exists(path).unwrap_or(false)) else {
        println!("skipped: the loader is elsewhere");
        return;
    };
    let run = record(&["--heap", "-o", "run.pickle"], &[loader, &program("program")]).run();
    assert_eq!(run.status, Some(0), "{}", run.err);
    assert!(!run.err.contains("unrecorded"), "{}", run.err);
    assert_eq!(live_from(&run.snapshot("run.pickle"), 100_000), run.counted(), "{}", run.err);
}

/// Returns a start of a program that has the rights of its owner; `None` if this machine cannot have one.
fn with_rights(mode: u32, user: Option<u32>, group: Option<u32>) -> Option<(Start, bool)> {
    let start = record(&["--heap", "-o", "run.pickle"], &["./owned", "secure"]);
    let owned = start.path("owned");
    cc(&["-o", owned.to_str().unwrap(), &source("program.c"), "-ldl"]);
    let set =
        chown(&owned, user, group).and_then(|()| fs::set_permissions(&owned, Permissions::from_mode(mode)));
    if let Err(error) = set {
        println!("skipped: cannot make a setuid program: {error}");
        return None;
    }
    let plain = Command::new(&owned).arg("secure").output().unwrap();
    Some((start, plain.stdout == b"1\n"))
}

#[test]
fn a_program_with_rights_of_its_own_runs_unrecorded() {
    for (mode, user, group) in [(0o4755, Some(NOBODY), None), (0o2755, None, Some(NOBODY))] {
        let Some((start, is_secure)) = with_rights(mode, user, group) else { return };
        if !is_secure {
            println!("skipped: this file system ignores setuid");
            return;
        }
        let run = start.run();
        assert_eq!((run.status, &*run.out), (Some(5), "1\n"), "{}", run.err);
        assert_eq!(
            run.err,
            "memreel: ./owned runs with its own privileges (setuid, setgid or capabilities), so no library \
             can be preloaded; it is not recorded\n\
             memreel: owned allocated nothing to record\n"
        );
        assert_eq!(run.files(), ["owned"]);
    }
    // The rights of the user are nothing new.
    let Some((start, is_secure)) = with_rights(0o4755, None, None) else { return };
    assert!(!is_secure);
    let run = start.run();
    assert!(!run.err.contains("unrecorded"), "{}", run.err);
    run.snapshot("run.pickle");
}
