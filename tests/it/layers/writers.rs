//! Files are written by one writer, which follows no link that another user planted: `pickle::replace`.
#![forbid(unsafe_code)]

use std::fs;

use memreel_testing::repository;

use super::unsafety::files;

/// What opens a file by its path to write into it.
const WORDS: [&str; 6] = [
    "fs::write(",
    "File::create(",
    "File::options()",
    "OpenOptions::new()",
    ".tempfile_in(",
    "File::create_new(",
];

/// The files that may, each with its reason.
const MAY: [(&str, &str); 6] = [
    ("cli/src/commands/attach", "they are in folders that it made"),
    ("cli/src/commands/doctor/trial.rs", "a folder of its own, which is new"),
    ("cli/src/commands/record/folder.rs", "by a descriptor of the new folder"),
    ("cli/src/commands/report/mod.rs", "a line is added to the summary of a job"),
    ("snapshot/src/pickle/file.rs", "it opens to read"),
    ("snapshot/src/pickle/place_by_path.rs", "the writer, where folders have no descriptors"),
];

#[test]
fn one_writer_writes_files() {
    let all = ["cli/src", "snapshot/src", "mcp/src"].iter().flat_map(|folder| files(&repository(folder)));
    let others = all.filter(|file| !MAY.iter().any(|(may, _)| file.starts_with(repository(may))));
    let strays: Vec<_> = others
        .filter(|file| !file.iter().any(|part| part == "tests") && !file.ends_with("tests.rs"))
        .filter(|file| {
            let text = fs::read_to_string(file).unwrap();
            let of_program = text.lines().take_while(|line| !line.starts_with("mod tests"));
            let code = of_program.filter(|line| !line.trim_start().starts_with("//"));
            WORDS.iter().any(|word| code.clone().any(|line| line.contains(word)))
        })
        .collect();
    assert!(strays.is_empty(), "pickle::replace writes files for these: {strays:#?}");
}
