//! The commands that read every file of the corpus, with the options that cost the most.

#![forbid(unsafe_code)]

/// The place of the file, or of several files.
pub(super) const FILE: &str = "FILE";

/// The place of an empty folder to write into, also at the beginning of a path.
pub(super) const OUT: &str = "OUT";

/// The commands whose ordinary test has JSON files too: all others ask the same snapshot, however it was read.
pub(super) const JSON_TOO: &[&str] = &["summary", "validate", "fix"];

/// Returns whether a command must have one file at a time: it compares files, joins them or writes one file.
pub(super) fn takes_one(command: &[&str]) -> bool {
    let n_files = command.iter().filter(|argument| **argument == FILE).count();
    n_files > 1 || command.starts_with(&["replay", "-o"])
}

/// The commands with the options that cost the most.
pub(super) const COMMANDS: &[&[&str]] = &[
    &["summary", FILE],
    &["summary", "--json", FILE],
    &["validate", FILE],
    &["validate", "--json", FILE],
    &["oom", FILE],
    &["fragmentation", FILE],
    &["fragmentation", "--json", FILE],
    &["replay", FILE],
    &["replay", "--json", "--conf", "expandable_segments:True", "--limit", "24GiB", FILE],
    &["replay", "--sweep", FILE],
    &["replay", "-o", "OUT/replayed.pickle", FILE],
    &["top", FILE],
    &["top", "--json", FILE],
    &["top", "--by", "function", FILE],
    &["top", "--by", "file", FILE],
    &["top", "--by", "scope", FILE],
    &["top", "--by", "scope", "--json", FILE],
    &["top", "--by", "name", FILE],
    &["top", "--tree", "--json", FILE],
    &["top", "--at", "end", FILE],
    &["leaks", FILE],
    &["leaks", "--json", FILE],
    &["churn", FILE],
    &["diff", FILE, FILE],
    &["diff", "--at", "peak", "--json", FILE, FILE],
    &["timeline", FILE],
    &["timeline", "--time", "--json", FILE],
    &["timeline", "--csv", FILE],
    &["timeline", "--svg", "OUT/drawn.svg", FILE],
    &["at", "peak", FILE],
    &["at", "10", "--json", FILE],
    &["trace", FILE],
    &["trace", "--pytorch", FILE],
    &["trace", "--json", FILE],
    &["segments", FILE],
    &["segments", "--json", FILE],
    &["segments", "--folded", FILE],
    &["segments", "--svg", "OUT/drawn.svg", FILE],
    &["owners", FILE],
    &["owners", "--json", FILE],
    &["memory", FILE],
    &["memory", "--json", FILE],
    &["memory", "--folded", FILE],
    &["memory", "--svg", "OUT/drawn.svg", FILE],
    &["stats", FILE],
    &["stats", "--json", FILE],
    &["compare", FILE, FILE],
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
    &["split", "-o", OUT, FILE],
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
