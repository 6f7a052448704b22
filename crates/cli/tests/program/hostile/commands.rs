//! The commands that read every file of the corpus: each plain and with `--json`, and with the options that cost the most.

#![forbid(unsafe_code)]

use std::sync::LazyLock;

use crate::every_command::{OUTPUT, ROWS, Row, Yes};

/// The place of the file, or of several files.
pub(crate) const FILE: &str = "FILE";

/// The place of an empty folder to write into, also at the beginning of a path.
pub(crate) const OUT: &str = "OUT";

/// The commands whose ordinary test has JSON files too: all others ask the same snapshot, however it was read.
pub(crate) const JSON_TOO: &[&str] = &["summary", "validate", "fix"];

/// All of them.
pub(crate) static COMMANDS: LazyLock<Vec<Vec<&'static str>>> =
    LazyLock::new(|| PLAIN.iter().cloned().chain(COSTLY.iter().map(|command| command.to_vec())).collect());

/// Each command plain and with `--json`.
pub(crate) static PLAIN: LazyLock<Vec<Vec<&'static str>>> =
    LazyLock::new(|| ROWS.iter().filter(|row| row.n_files != Some(0)).flat_map(plain).collect());

/// Returns a command with what it needs and no more, and its `--json`.
fn plain(row: &Row) -> Vec<Vec<&'static str>> {
    let needs = row.needs.iter().map(|need| if *need == OUTPUT { OUT } else { need });
    let words: Vec<&str> = [row.name].into_iter().chain(needs).collect();
    let files = vec![FILE; row.n_files.unwrap_or(1)];
    let options: &[&[&str]] = if matches!(row.json, Yes) { &[&[], &["--json"]] } else { &[&[]] };
    options.iter().map(|option| [&words, *option, &files].concat()).collect()
}

/// The options that cost the most.
const COSTLY: &[&[&str]] = &[
    &["replay", "--json", "--conf", "expandable_segments:True", "--limit", "24GiB", FILE],
    &["replay", "--sweep", FILE],
    &["replay", "--from", "1s", "--conf", "expandable_segments:True", FILE],
    &["replay", "-o", "OUT/replayed.pickle", FILE],
    &["top", "--by", "function", FILE],
    &["top", "--by", "file", FILE],
    &["top", "--by", "scope", FILE],
    &["top", "--by", "scope", "--json", FILE],
    &["top", "--by", "name", FILE],
    &["top", "--tree", "--json", FILE],
    &["top", "--at", "end", FILE],
    &["diff", "--at", "peak", "--json", FILE, FILE],
    &["timeline", "--time", "--json", FILE],
    &["timeline", "--csv", FILE],
    &["timeline", "--svg", "OUT/drawn.svg", FILE],
    &["at", "10", "--json", FILE],
    &["at", "--address", "0..0xffffffffffffffff", "end", FILE],
    &["at", "--address", "0..0xffffffffffffffff", "--json", "end", FILE],
    &["trace", "--pytorch", FILE],
    &["segments", "--folded", FILE],
    &["segments", "--svg", "OUT/drawn.svg", FILE],
    &["memory", "--folded", FILE],
    &["memory", "--svg", "OUT/drawn.svg", FILE],
    &["compare", "--pytorch", FILE, FILE],
    &["fix", "-o", OUT, FILE],
    &["slim", "--events", "10..30", "-o", OUT, FILE],
    &["slim", "--time", "1ms..", "-o", OUT, FILE],
    &["slim", "--scope", "s", "-o", OUT, FILE],
    &["slim", "--min-size", "1KiB", "-o", OUT, FILE],
    &["slim", "--depth", "8", "--drop-path", "torch", "--strip-prefix", "/home", "-o", OUT, FILE],
    &["slim", "--anonymise", "-o", OUT, FILE],
    &["merge", "-o", OUT, FILE, FILE],
    &["merge", "--in-order", "-o", OUT, FILE, FILE],
    &["convert", "--to", "json", FILE],
    &["convert", "--to", "json", "--device", "0", FILE],
    &["convert", "--to", "pickle", FILE],
    &["convert", "--to", "pprof", FILE],
    &["convert", "--to", "perfetto", FILE],
    &["convert", "--to", "folded", FILE],
    &["convert", "--to", "csv", FILE],
    &["convert", "--to", "csv", "--stacks", FILE],
    &["gate", "--strict", "--max-peak", "1TiB", "--max-fragmentation", "50%", FILE],
    &["gate", "--baseline", FILE, "--junit", "OUT/results.xml", FILE],
];
