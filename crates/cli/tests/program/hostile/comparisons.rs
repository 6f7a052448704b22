//! Every command that compares files, on files of [`PAIRS`]: time and memory are in proportion to the files.
//!
//! In an ordinary test the files have fewer sites. `MEMREEL_HOSTILE_SITES=40000` is the long form;
//! `MEMREEL_HOSTILE_CASES`, `MEMREEL_HOSTILE_COMMANDS` and `MEMREEL_HOSTILE_KEEP` mean what they do in the other tests.

#![forbid(unsafe_code)]

use std::{
    env, fs,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::ChildStdout,
};

use memreel_testing::hostile::{Form, PAIRS, Pair, check_all, written};

use super::{
    beside_files, fault, is_asked_for,
    limited::{Used, run_and_hear},
    too_long, variable,
};
use crate::view::Page;

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
    let kept = env::var_os("MEMREEL_HOSTILE_KEEP").map(PathBuf::from);
    let write_all =
        |folder: &Path| check_all(&compared(), |files| files.write(kept.as_deref().unwrap_or(folder)));
    beside_files(module_path!(), "files_are_compared_in_proportion", write_all, || {
        let commands = COMPARING.iter().filter(|command| is_asked_for("COMMANDS", &command.join(" ")));
        let commands: Vec<_> = commands.filter(|_| kept.is_none()).collect();
        check_all(&compared(), |files| {
            let is_soon = |command: &&&&[&str]| ***command != PAGE || files.pair.share > 10;
            commands.iter().filter(is_soon).filter_map(|command| files.check(command)).collect()
        });
    });
}

/// Returns what is compared.
fn compared() -> Vec<Compared> {
    let n_sites = variable("SITES", N_SITES);
    let folders = |pair: &Pair| [n_sites, n_sites / 4].map(|n| PathBuf::from(format!("{}-{n}", pair.name)));
    let of_pair = |pair: &'static Pair| {
        let [larger, smaller] = folders(pair);
        Compared { pair, n_sites, larger, smaller }
    };
    PAIRS.iter().filter(|pair| is_asked_for("CASES", pair.name)).map(of_pair).collect()
}

/// The files of a pair: larger ones, and some with a quarter of the sites, each in a folder.
struct Compared {
    pair: &'static Pair,
    n_sites: usize,
    larger: PathBuf,
    smaller: PathBuf,
}

impl Compared {
    fn write(&self, folder: &Path) -> Vec<String> {
        for (below, n_sites) in [(&self.larger, self.n_sites), (&self.smaller, self.n_sites / 4)] {
            fs::create_dir(folder.join(below)).unwrap();
            for (name, side) in SIDES.iter().zip(0..) {
                let value = (self.pair.value)((n_sites / self.pair.share) as u64, side);
                fs::write(folder.join(below).join(name), written(Form::Pickle, &value)).unwrap();
            }
        }
        Vec::new()
    }

    /// Runs a command on the larger files, and where that takes long, on the smaller ones too; returns what went wrong.
    fn check(&self, command: &[&str]) -> Option<String> {
        let mut used = run(command, &self.larger);
        let n_bytes = command.iter().filter(|word| SIDES.contains(word));
        let n_bytes = n_bytes.map(|word| fs::metadata(self.larger.join(word)).unwrap().len()).sum();
        let words = command.join(" ");
        if command == SERVED {
            used.peak_rss_bytes = used.peak_rss_bytes.saturating_sub(SERVER_BYTES);
        }
        let fault = fault(&used, 3, n_bytes).or_else(|| {
            too_long(&used, || [&self.larger, &self.smaller].map(|folder| run(command, folder).cpu_seconds))
        });
        Some(format!("{}: {words}: {}: {}", self.pair.name, fault?, used.message))
    }
}

/// Runs a command on the files of a folder.
fn run(command: &[&str], folder: &Path) -> Used {
    let out = tempfile::tempdir().unwrap();
    let word = |word: &&str| match *word {
        OUT => out.path().join(OUT).to_str().unwrap().to_owned(),
        other => other.to_owned(),
    };
    let words: Vec<String> = command.iter().map(word).collect();
    run_and_hear(&words, folder, if command == SERVED { compared_by_page } else { unheard })
}

fn unheard(mut out: ChildStdout) {
    io::copy(&mut out, &mut io::sink()).unwrap();
}

/// Asks the page of a server to compare its files, and ends the server.
fn compared_by_page(out: ChildStdout) {
    let mut address = String::new();
    BufReader::new(out).read_line(&mut address).unwrap();
    let page = Page::at(address.trim_end());
    page.first_file();
    page.get("diff?file=0&other=1");
    page.post("end");
}
