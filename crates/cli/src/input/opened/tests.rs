//! Tests files that another process replaces by a pipe or a link while they are opened: nothing waits, and no device is
//! read.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use memreel_snapshot::{Snapshot, pickle};
use rustix::fs::{CWD, Mode, OFlags, RenameFlags, mkfifoat, open, renameat_with};

use super::*;
use crate::{
    input::{Opener, log_file},
    options::replaces_no_snapshot,
};

/// How often each is opened and exchanged, at least; the long form is `MEMREEL_EXCHANGES=10000`.
fn n_turns() -> usize {
    env::var("MEMREEL_EXCHANGES").map_or(500, |turns| turns.parse().unwrap())
}

/// How long a turn may take that does not wait for anybody: no turn takes a thousandth of it.
const PATIENCE: Duration = Duration::from_secs(10);

/// A way in which the program opens a file by name.
type Opening = (&'static str, fn(&Path));

/// The functions that open named files.
const OPENING: [Opening; 6] = [
    ("snapshot", |path| drop(pickle::load(path))),
    ("inspection", |path| drop(pickle::inspect(path))),
    ("tape", |path| drop(Recovered::read(path))),
    ("profile", |path| drop(read_profile(path))),
    ("log", |path| drop(log_file::read(path, &Opener::Files))),
    ("output", |path| drop(replaces_no_snapshot(path, []))),
];

/// A file, and its replacement.
struct Exchange {
    path: PathBuf,
    other: PathBuf,
}

impl Exchange {
    /// Has another thread exchange both while `opening` is called again and again, each as often as is asked for. Returns how
    /// often `opening` did not return.
    fn run(&self, opening: fn(&Path)) -> usize {
        let (n_done, n_exchanged, is_over) =
            (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let attacker = scope.spawn(|| {
                let (mut n_waits, mut seen, mut since) = (0, 0, Instant::now());
                while !is_over.load(Ordering::Relaxed) {
                    renameat_with(CWD, &self.path, CWD, &self.other, RenameFlags::EXCHANGE).unwrap();
                    n_exchanged.fetch_add(1, Ordering::Relaxed);
                    let done = n_done.load(Ordering::Relaxed);
                    if done != seen {
                        (seen, since) = (done, Instant::now());
                    } else if since.elapsed() > PATIENCE {
                        n_waits += 1;
                        self.free();
                        since = Instant::now();
                    }
                }
                n_waits
            });
            while n_done.load(Ordering::Relaxed).min(n_exchanged.load(Ordering::Relaxed)) < n_turns() {
                opening(&self.path);
                n_done.fetch_add(1, Ordering::Relaxed);
            }
            is_over.store(true, Ordering::Relaxed);
            attacker.join().unwrap()
        })
    }

    /// Has what waits for a writer of the pipe go on.
    fn free(&self) {
        for path in [&self.path, &self.other] {
            let _ = open(path, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
        }
    }
}

#[test]
fn a_pipe_or_a_link_that_is_put_in_place_of_a_file_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    mkfifoat(CWD, at("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
    for (name, to) in
        [("to pipe", at("pipe")), ("to zeros", "/dev/zero".into()), ("to tty", "/dev/ptmx".into())]
    {
        std::os::unix::fs::symlink(to, at(name)).unwrap();
    }
    for other in ["pipe", "to pipe", "to zeros", "to tty"] {
        for (what, opening) in OPENING {
            let path = at("file");
            match what {
                "log" => fs::write(&path, "a line of a log\n").unwrap(),
                _ => pickle::save(&Snapshot::default(), &path).unwrap(),
            }
            let n_waits = Exchange { path: path.clone(), other: at(other) }.run(opening);
            assert_eq!(n_waits, 0, "{what}, {other}");
            // Whichever is where now.
            if !fs::symlink_metadata(&path).unwrap().is_file() {
                renameat_with(CWD, &path, CWD, at(other), RenameFlags::EXCHANGE).unwrap();
            }
        }
    }
}
