//! Files and folders are made, renamed and removed by one writer, which follows no link that another user planted: the room
//! `place` of `memreel-snapshot`.
#![forbid(unsafe_code)]

use std::fs;

use memreel_testing::repository;

use super::unsafety::files;

/// What changes by its path what a folder has, or opens a file to write into it.
const WORDS: [&str; 16] = [
    "fs::write(",
    "File::create(",
    "File::options()",
    "OpenOptions::new()",
    ".tempfile_in(",
    "File::create_new(",
    "create_dir(",
    "create_dir_all(",
    "DirBuilder::new()",
    "fs::rename(",
    "fs::copy(",
    "fs::hard_link(",
    "symlink(",
    "fs::set_permissions(",
    "fs::remove_",
    "fs::chown(",
];

/// The files that may, each with its reason.
const MAY: [(&str, &str); 13] = [
    ("crates/cli/src/attach/gdb.rs", "in a folder of its own, which is new"),
    ("crates/cli/src/commands/doctor/trial.rs", "a folder of its own, which is new"),
    ("crates/cli/src/record/processes.rs", "in the folder of a run, which its user alone may enter"),
    ("crates/cli/src/input/torch_dump.rs", "in the folder of a run"),
    ("crates/snapshot/src/place/plain.rs", "it opens to read"),
    ("src/process/memory/", "tests"),
    ("src/process/testing/", "tests"),
    ("src/tape/descriptor.rs", "the tape again, by its identity"),
    ("src/tape/mapped.rs", "the tape of another process, in the folder of a run"),
    ("src/tape/file_space.rs", "in the folder of a run"),
    ("src/tape/seal.rs", "a tape in the folder of a run"),
    ("src/tape/taken_name.rs", "in the folder of a run"),
    ("crates/snapshot/src/place/by_path.rs", "the writer, where folders have no descriptors"),
];

#[test]
fn one_writer_writes_files() {
    let all = [
        "crates/cli/src",
        "crates/lockfree/src",
        "crates/snapshot/src",
        "crates/answers/src",
        "crates/mcp/src",
        "src",
        "crates/hooks/malloc/src",
        "crates/hooks/cuda/src",
        "crates/capi/src",
    ]
    .iter()
    .flat_map(|folder| files(&repository(folder)));
    let others = all.filter(|file| !MAY.iter().any(|(may, _)| file.starts_with(repository(may))));
    let strays: Vec<_> = others
        .filter(|file| !file.iter().any(|part| part == "tests") && !file.ends_with("tests.rs"))
        .filter(|file| {
            let text = fs::read_to_string(file).unwrap();
            let of_program = text.lines().take_while(|line| !line.starts_with("mod tests"));
            let code = of_program.filter(|line| !line.trim_start().starts_with("//"));
            WORDS.iter().any(|word| code.clone().any(|line| has_word(line, word)))
        })
        .collect();
    assert!(strays.is_empty(), "pickle::replace writes files for these: {strays:#?}");
}

/// Whether a line has a word that is not the end of another.
fn has_word(line: &str, word: &str) -> bool {
    let is_end = |at: usize| line[..at].ends_with(|before: char| before.is_alphanumeric());
    line.match_indices(word).any(|(at, _)| !is_end(at))
}
