//! Targets that attack `memreel attach`, which root runs: each in namespaces or with a root of its own, as a container has them.

#![forbid(unsafe_code)]

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    net::Shutdown,
    os::{
        fd::OwnedFd,
        unix::{
            fs::{MetadataExt, PermissionsExt, chown},
            net::UnixStream,
            process::CommandExt,
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use rustix::process::{Signal, geteuid};
use serde_json::json;
use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

use super::{signal, source, wait_for};
use crate::support::{memreel, stderr};

/// A user who is not root.
const USER: u32 = 1234;

/// The interpreter, which every user can read.
const PYTHON: &str = "/usr/bin/python3";

/// Gives the target a folder for temporary files of its own.
const OWN_TMP: &str = "mount --bind \"$SCENE/tmp\" /tmp && exec \"$@\"";

/// Gives the target a root in which `/tmp` is a link to a folder of the outside.
const LINKED_TMP: &str = "cd \"$SCENE/root\" || exit 1
for name in bin lib lib64 usr etc proc; do
  if [ -L /$name ]; then cp -P /$name $name; elif [ -d /$name ]; then mkdir $name && mount --rbind /$name $name; fi
done
ln -s \"$SCENE/private\" tmp && exec chroot . \"$@\"";

/// Gives the target a root in which `/link` leads to a folder of the outside.
const LINK_BESIDE_TMP: &str = "cd \"$SCENE/root\" || exit 1
for name in bin lib lib64 usr etc proc; do
  if [ -L /$name ]; then cp -P /$name $name; elif [ -d /$name ]; then mkdir $name && mount --rbind /$name $name; fi
done
mkdir tmp && ln -s \"$SCENE/private\" link && exec chroot . \"$@\"";

/// A folder that only root can change, with a target that runs, and what must not be touched.
struct Scene {
    folder: TempDir,
    child: Child,
    /// The number of the target: `unshare` may be its parent.
    process: u32,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether targets can be made here; says why not.
fn can_attack() -> bool {
    let works =
        |words: &[&str]| Command::new("unshare").args(words).status().is_ok_and(|status| status.success());
    let can = geteuid().is_root() && Path::new(PYTHON).exists() && works(&["-m", "-p", "-f", "true"]);
    if !can {
        eprintln!("not tried: it takes root, {PYTHON} and namespaces");
    }
    can
}

/// How a target is started.
#[derive(Clone, Copy)]
struct Start<'a> {
    /// The options of `unshare`.
    namespaces: &'a [&'a str],
    /// What a shell runs there before the target, which is its arguments.
    shell: &'a str,
    user: u32,
    kind: &'a str,
    /// The name that the interpreter gets in the folder of the scene.
    python: Option<&'a str>,
}

impl Scene {
    fn start(start: &Start<'_>) -> Scene {
        // Root alone can change the folders above: a program in them is one that root may run.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["tmp", "root", "private", "bin"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::set_permissions(at("private"), fs::Permissions::from_mode(0o700)).unwrap();
        chown(at("tmp"), Some(start.user), Some(start.user)).unwrap();
        fs::write(at("victim"), "precious").unwrap();
        fs::set_permissions(at("victim"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(at("heard"), "").unwrap();
        chown(at("heard"), Some(start.user), Some(start.user)).unwrap();
        let python = start.python.map_or_else(|| PYTHON.into(), at);
        if start.python.is_some() {
            fs::copy(fs::canonicalize(PYTHON).unwrap(), &python).unwrap();
        }
        let mut command = Command::new("unshare");
        command.args(start.namespaces).args(["sh", "-c", start.shell, "sh"]).arg(python);
        let named = if start.kind == "child" { "heard" } else { "victim" };
        command.args(["-c", &fs::read_to_string(source("hostile.py")).unwrap(), start.kind]).arg(at(named));
        command.env("SCENE", folder.path()).env("PYTHONHOME", "/usr").current_dir("/");
        command.uid(start.user).gid(start.user).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let process = match start.namespaces.contains(&"-f") {
            true => fs::read_to_string(children).unwrap().trim().parse().unwrap(),
            false => child.id(),
        };
        Scene { folder, child, process }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a program that stands in for gdb: it runs these lines, says that it is attached, and keeps what it is ordered to do.
    fn gdb(&self, lines: &str) {
        let ordered = self.at("ordered");
        let text = format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\n{lines}\necho attached\nread go\nwhile [ $# -gt 1 ]; do shift; done\n\
             [ -e \"$1\" ] && /bin/cat \"$1\" >{}\necho queued 0\n",
            ordered.display()
        );
        let gdb = self.at("bin/gdb");
        fs::write(&gdb, text).unwrap();
        fs::set_permissions(&gdb, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Attaches with the programs of the scene alone.
    fn attach(&self, options: &[&str]) -> Output {
        let mut command = memreel(&["attach", &self.process.to_string(), "-o"]);
        command.arg(self.at("out.pickle")).args(options).env("PATH", self.at("bin")).current_dir("/");
        command.output().unwrap()
    }

    /// Has the deputy alone make the folder and remove it; returns what it says when the folder is there, or why it is not.
    fn deputy(&self, user: u32, turn: usize) -> String {
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        let (channel, its_channel) = UnixStream::pair().unwrap();
        let mut command = memreel(&["attach", "--deputy", &self.process.to_string()]);
        command.stdin(OwnedFd::from(listener)).stdout(OwnedFd::from(its_channel)).stderr(Stdio::null());
        let mut deputy = command.spawn().unwrap();
        // It has the other end of the channel alone.
        drop(command);
        let mut lines = BufReader::new(&channel).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "opened");
        let folder = format!("memreel-attach-{turn}");
        let orders = json!({"user": user, "group": user, "groups": [], "folder": folder, "script": "pass\n"});
        writeln!(&channel, "{orders}").unwrap();
        let said = lines.next().unwrap().unwrap();
        channel.shutdown(Shutdown::Write).unwrap();
        deputy.wait().unwrap();
        said
    }

    /// Returns how often the target exchanged a folder.
    fn n_exchanged(&self) -> usize {
        let names = fs::read_dir(self.at("tmp/decoys")).unwrap().map(|name| name.unwrap().file_name());
        // The newest is for the next turn.
        names.filter(|name| !name.to_string_lossy().ends_with("-left")).count() - 1
    }

    fn is_refused(&self, options: &[&str], parts: &[&str]) {
        let output = self.attach(options);
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        for part in parts {
            assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
        }
        assert!(!self.at("out.pickle").exists());
    }

    fn victim_is_whole(&self) {
        let found = fs::metadata(self.at("victim")).unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (0, 0, 0o600));
        assert_eq!(fs::read_to_string(self.at("victim")).unwrap(), "precious");
    }
}

/// A process with namespaces of its own, of a user who is root in them.
const OF_A_USER: Start<'_> =
    Start { namespaces: &["-U", "-r", "-m"], shell: OWN_TMP, user: USER, kind: "", python: None };

/// A process of a container whose root is the machine's.
const OF_A_CONTAINER: Start<'_> = Start {
    namespaces: &["-m", "-p", "-f", "--kill-child", "--propagation", "private"],
    shell: OWN_TMP,
    user: 0,
    kind: "",
    python: None,
};

#[test]
#[ignore = "needs root, python3 and namespaces"]
fn a_cpython_of_a_container_lends_no_program() {
    if !can_attack() {
        return;
    }
    let scene = Scene::start(&Start { python: Some("bin/python3.14"), kind: "waits", ..OF_A_CONTAINER });
    // Its program would be found beside it and in PATH; it is the container's, which could have replaced it.
    scene.is_refused(&["--wait", "1s"], &["needs gdb", "memreel attach 1`"]);
}

#[test]
#[ignore = "needs root, python3 and namespaces"]
fn a_cpython_that_exchanges_the_folder_gains_nothing() {
    if !can_attack() {
        return;
    }
    // The long form: MEMREEL_ATTACH_TURNS=10000.
    let n_turns = env::var("MEMREEL_ATTACH_TURNS").map_or(4, |turns| turns.parse().unwrap());
    for start in [OF_A_USER, OF_A_CONTAINER] {
        let scene = Scene::start(&Start { kind: "exchange", ..start });
        scene.gdb("");
        for turn in 0..n_turns {
            let output = scene.attach(&["--wait", "50ms"]);
            assert_eq!(output.status.code(), Some(3), "{turn}: {}", stderr(&output));
            scene.victim_is_whole();
        }
        println!("{} of {n_turns} folders were exchanged", scene.n_exchanged());
        assert!(scene.n_exchanged() > 0);
    }
}

/// Races a target against the deputy alone, the part that writes for it: a turn takes a tenth of the time. The race goes on
/// until the target has done something.
fn race(start: &Start<'_>, has_begun: impl Fn(&Scene) -> bool) -> Scene {
    // The long form: MEMREEL_ATTACH_TURNS=10000.
    let n_turns = env::var("MEMREEL_ATTACH_TURNS").map_or(40, |turns| turns.parse().unwrap());
    let scene = Scene::start(start);
    let private = || fs::metadata(scene.at("private")).unwrap().modified().unwrap();
    let (before, mut n_refused) = (private(), 0);
    let mut turn = 0;
    while turn < n_turns || turn < 50 * n_turns && !has_begun(&scene) {
        turn += 1;
        n_refused += usize::from(scene.deputy(start.user, turn) != "made");
        scene.victim_is_whole();
        assert_eq!(private(), before, "{turn}: something was made where a link leads");
    }
    println!("{}, user {}: {n_refused} of {turn} turns were refused", start.kind, start.user);
    scene
}

/// Races a target of a user, and one of a container.
fn race_both(kind: &str) {
    if !can_attack() {
        return;
    }
    for start in [OF_A_USER, OF_A_CONTAINER] {
        let n_exchanged = race(&Start { kind, ..start }, |scene| scene.n_exchanged() > 0).n_exchanged();
        println!("  {n_exchanged} were exchanged");
        assert!(n_exchanged > 0, "{kind}");
    }
}

#[test]
#[ignore = "needs root, python3 and namespaces"]
fn a_cpython_that_exchanges_the_folder_of_the_deputy_gains_nothing() {
    race_both("exchange quickly");
}

#[test]
#[ignore = "needs root, python3 and namespaces"]
fn a_cpython_that_puts_a_link_in_place_of_the_folder_gains_nothing() {
    race_both("exchange for a link");
}

#[test]
#[ignore = "needs root, python3 and namespaces"]
fn a_cpython_that_plants_links_in_the_folder_gains_nothing() {
    race_both("plant");
}

#[test]
#[ignore = "needs root, python3 and namespaces"]
fn a_cpython_whose_temporary_folder_becomes_a_link_gains_nothing() {
    if !can_attack() {
        return;
    }
    race(&Start { shell: LINK_BESIDE_TMP, kind: "exchange tmp", ..OF_A_CONTAINER }, |_| true);
}

#[test]
#[ignore = "needs root, python3 and namespaces"]
fn a_cpython_whose_folder_is_a_link_leads_nowhere() {
    if !can_attack() {
        return;
    }
    let scene = Scene::start(&Start { shell: LINKED_TMP, kind: "waits", ..OF_A_CONTAINER });
    scene.gdb("");
    let changed = || fs::metadata(scene.at("private")).unwrap().modified().unwrap();
    let before = changed();
    let output = scene.attach(&["--wait", "50ms"]);
    assert_eq!(changed(), before, "a folder was made where the link points");
    assert!(stderr(&output).contains("cannot create a folder in its /tmp"), "{}", stderr(&output));
}

#[test]
#[ignore = "needs root, python3 and namespaces"]
fn a_cpython_that_sends_without_end_is_cut_off() {
    if !can_attack() {
        return;
    }
    let scene = Scene::start(&Start { kind: "endless", ..OF_A_CONTAINER });
    scene.gdb("");
    let options = ["--for", "1ms", "--max-size", "64MiB"];
    scene.is_refused(&options, &["larger than 64.00 MiB", "--max-size"]);
    let n_files = fs::read_dir(scene.folder.path()).unwrap().count();
    // Those of the scene, and what gdb was ordered to do.
    assert_eq!(n_files, 7, "a part of the snapshot is left");
}

#[test]
#[ignore = "needs root, python3 and namespaces"]
fn a_cpython_that_never_ends_its_line_is_left_at_a_signal() {
    if !can_attack() {
        return;
    }
    let scene = Scene::start(&Start { kind: "silent", ..OF_A_CONTAINER });
    scene.gdb("");
    let mut command = memreel(&["attach", &scene.process.to_string(), "-o"]);
    command.arg(scene.at("out.pickle")).env("PATH", scene.at("bin")).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // The folder goes when the target is connected.
    let is_there = || fs::read_dir(scene.at("tmp")).unwrap().next().is_some();
    wait_for("the folder", is_there);
    wait_for("the connection", || !is_there());
    signal(child.id(), Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
}

#[test]
#[ignore = "needs root, python3 and namespaces"]
fn a_cpython_does_not_answer_by_another_process() {
    if !can_attack() {
        return;
    }
    let scene = Scene::start(&Start { kind: "child", ..OF_A_CONTAINER });
    scene.gdb("");
    scene.is_refused(&["--wait", "2s"], &["did not answer"]);
    assert_eq!(fs::read_to_string(scene.at("heard")).unwrap(), "heard b''");
}

#[test]
#[ignore = "needs root, python3 and namespaces"]
fn a_cpython_that_changes_meanwhile_is_not_touched() {
    if !can_attack() {
        return;
    }
    let until = |name: &str, change: &str| {
        format!("before=$({name})\n{change}\nwhile [ \"$({name})\" = \"$before\" ]; do /bin/sleep 0.01; done")
    };
    for (kind, change) in [
        ("execs", ["/bin/readlink /proc/$PID/exe", "kill -USR1 $PID"]),
        ("changes its user", ["/bin/grep Uid /proc/$PID/status", "kill -USR2 $PID"]),
        ("ends", ["/bin/readlink /proc/$PID/exe", "kill -KILL $PID"]),
    ] {
        let scene = Scene::start(&Start { kind: "waits", ..OF_A_CONTAINER });
        scene.gdb(&format!("PID={}\n{}", scene.process, until(change[0], change[1])));
        scene.is_refused(
            &["--wait", "50ms"],
            &[if kind == "ends" { "has ended" } else { "changed in the meantime" }],
        );
        assert_eq!(fs::read_to_string(scene.at("ordered")).unwrap_or_default(), "", "{kind}");
    }
}
