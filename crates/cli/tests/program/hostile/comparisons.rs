//! Every command that compares files, on files of [`PAIRS`]: time and memory are in proportion to the files.
//!
//! In an ordinary test the files have fewer sites. `MEMREEL_HOSTILE_SITES=40000` is the long form;
//! `MEMREEL_HOSTILE_CASES`, `MEMREEL_HOSTILE_COMMANDS` and `MEMREEL_HOSTILE_KEEP` mean what they do in the other tests, and
//! `MEMREEL_HOSTILE_TABLE` names a file for a line of figures of each run.

#![forbid(unsafe_code)]

use std::{
    env,
    fs::{self, File},
    io::{BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    process::ChildStdout,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use super::{
    LONGEST, fault, is_asked_for,
    limited::{Limits, Used, run_and_hear},
    line,
    pairs::{PAIRS, Pair},
    sink::{Form, Sink},
    too_long, variable,
};
use crate::{own_process, view::Page};

/// The sites of the larger files in an ordinary test.
const N_SITES: usize = 12_000;

/// The files of a comparison, as words of a command.
const SIDES: [&str; 3] = ["side0.pickle", "side1.pickle", "side2.pickle"];
const A: &str = SIDES[0];
const B: &str = SIDES[1];
const C: &str = SIDES[2];

/// The words of a command that serves files, and is asked to compare them.
const SERVED: &[&str] = &["view", "--no-open", "--print-address", A, B];

/// The resident memory that a server has beside that of other commands: its threads answer at once, and a whole answer is in
/// memory.
const SERVER_BYTES: u64 = 64_000_000;

/// The commands that compare or join files.
const COMPARING: &[&[&str]] = &[
    &["diff", A, B],
    &["diff", "--at", "peak", "--json", B, A],
    &["diff", "--by", "owner", A, B],
    &["compare", "--json", A, B],
    &["compare", "--pytorch", A, B],
    &["ranks", A, B, C],
    &["ranks", "--json", A, B, C],
    &["ranks", "--by", "step", A, B, C],
    &["leaks", A, B, C],
    &["owners", A, B, C],
    &["merge", "-o", OUT, A, B, C],
    &["gate", "--baseline", A, B],
    PAGE,
    SERVED,
];

/// A command whose time is that of some hundred pictures, so that it has files of fewer sites.
const PAGE: &[&str] = &["view", "--html", OUT, A, B];

/// What a command writes, if it writes.
const OUT: &str = "out";

#[test]
fn files_are_compared_in_proportion() {
    // A process begins with the peak of memory of the one that starts it, so other tests must not be in it.
    own_process::run(module_path!(), "files_are_compared_in_proportion", LONGEST, every_comparison);
}

fn every_comparison() {
    let kept = env::var_os("MEMREEL_HOSTILE_KEEP").map(PathBuf::from);
    let temporary = tempfile::tempdir().unwrap();
    let folder = kept.as_deref().unwrap_or(temporary.path());
    let table = env::var_os("MEMREEL_HOSTILE_TABLE").map(|path| Mutex::new(File::create(path).unwrap()));
    let all: Vec<Compared> = PAIRS
        .iter()
        .filter(|pair| is_asked_for("CASES", pair.name))
        .map(|pair| Compared::write(pair, folder, variable("SITES", N_SITES)))
        .collect();
    if kept.is_some() {
        return;
    }
    let commands = COMPARING.iter().filter(|command| is_asked_for("COMMANDS", &command.join(" ")));
    let of_command = |command: &'static &[&str]| all.iter().map(move |files| (files, *command));
    let is_soon = |(files, command): &(&Compared, &[&str])| *command != PAGE || files.is_small;
    let runs: Vec<_> = commands.flat_map(of_command).filter(is_soon).collect();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|threads| {
        for _ in 0..thread::available_parallelism().map_or(2, |n| n.get()) {
            threads.spawn(|| {
                while let Some((files, command)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    failures.lock().unwrap().extend(files.check(command, table.as_ref()));
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// The files of a pair: larger ones, and some with a quarter of the sites, each in a folder.
struct Compared {
    name: &'static str,
    is_small: bool,
    larger: PathBuf,
    smaller: PathBuf,
}

impl Compared {
    fn write(pair: &Pair, folder: &Path, n_sites: usize) -> Compared {
        let write = |n_sites: usize| {
            let folder = folder.join(format!("{}-{n_sites}", pair.name));
            fs::create_dir(&folder).unwrap();
            for (side, name) in SIDES.iter().enumerate() {
                let mut out = BufWriter::new(File::create(folder.join(name)).unwrap());
                let mut sink = Sink::new(Form::Pickle, &mut out);
                (pair.make)(&mut sink, n_sites / pair.share, side);
                sink.finish();
                out.flush().unwrap();
            }
            folder
        };
        Compared {
            name: pair.name,
            is_small: pair.share > 10,
            larger: write(n_sites),
            smaller: write(n_sites / 4),
        }
    }

    /// Runs a command on the larger files, and where that takes long, on the smaller ones too; returns what went wrong.
    fn check(&self, command: &[&str], table: Option<&Mutex<File>>) -> Option<String> {
        let mut used = run(command, &self.larger);
        let n_bytes = command.iter().filter(|word| SIDES.contains(word));
        let n_bytes = n_bytes.map(|word| fs::metadata(self.larger.join(word)).unwrap().len()).sum();
        let words = command.join(" ");
        if let Some(table) = table {
            let line = line(self.name, &self.larger.join(A), &words, &used, 0);
            writeln!(table.lock().unwrap(), "{line}").unwrap();
        }
        if command == SERVED {
            used.peak_rss_bytes = used.peak_rss_bytes.saturating_sub(SERVER_BYTES);
        }
        let fault = fault(&used, 3, n_bytes).or_else(|| {
            too_long(&used, || [&self.larger, &self.smaller].map(|folder| run(command, folder).cpu_seconds))
        });
        Some(format!("{}: {words}: {}: {}", self.name, fault?, used.message))
    }
}

/// Runs a command on the files of a folder.
fn run(command: &[&str], folder: &Path) -> Used {
    let out = tempfile::tempdir_in(folder).unwrap();
    let word = |word: &&str| match *word {
        OUT => out.path().join(OUT).to_str().unwrap().to_owned(),
        other => other.to_owned(),
    };
    let words: Vec<String> = command.iter().map(word).collect();
    let limits = Limits { seconds: variable("SECONDS", 60.0), megabytes: variable("MEGABYTES", 1000) };
    let hear = if command == SERVED { compared_by_page } else { counted };
    run_and_hear(env!("CARGO_BIN_EXE_memreel").as_ref(), &words, folder, limits, hear)
}

fn counted(mut out: ChildStdout) -> u64 {
    std::io::copy(&mut out, &mut std::io::sink()).unwrap()
}

/// Has the page of a server compare its files, and ends the server; returns the length of the answer.
fn compared_by_page(out: ChildStdout) -> u64 {
    let mut address = String::new();
    BufReader::new(out).read_line(&mut address).unwrap();
    let page = Page::at(address.trim_end());
    page.first_file();
    let answer = page.get("diff?file=0&other=1");
    page.post("end");
    answer.text().len() as u64
}
