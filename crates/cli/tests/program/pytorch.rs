//! The texts that copy PyTorch's tool, byte for byte.

#![forbid(unsafe_code)]

use crate::support::{answer, expected};

/// Returns the arguments with which the program prints what a command of PyTorch's tool prints.
fn pytorch_arguments<'a>(command: &'a str, file: &'a str) -> Vec<&'a str> {
    match command {
        "stats" => vec!["stats", file],
        "trace" => vec!["trace", "--pytorch", file],
        _ => vec![command, "--folded", file],
    }
}

#[test]
fn every_fixture() {
    let list = expected("pytorch-tool.txt");
    assert!(list.lines().count() > 90, "{}", list.lines().count());
    for line in list.lines() {
        let [command, file, length, checksum] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let text = answer(&pytorch_arguments(command, file));
        let found = format!("{} {}", text.len(), crc32fast::hash(text.as_bytes()));
        assert_eq!(found, format!("{length} {checksum}"), "{command} {file}");
    }
}

#[test]
fn odd_files() {
    let tool = "synthetic/tool.pickle";
    let cases = [
        ("stats", tool, "stats.txt"),
        ("stats", "synthetic/stats2.pickle", "stats2.txt"),
        ("trace", tool, "trace.txt"),
        ("segments", tool, "segments.folded"),
        ("memory", tool, "memory.folded"),
    ];
    for (command, file, name) in cases {
        assert_eq!(answer(&pytorch_arguments(command, file)), expected(&format!("pytorch/{name}")), "{name}");
    }
    let compared = answer(&[
        "compare",
        "--pytorch",
        "synthetic/before_segments.pickle",
        "synthetic/after_segments.pickle",
    ]);
    assert_eq!(compared, expected("pytorch/compare.stdout.txt") + &expected("pytorch/compare.folded"));
}
