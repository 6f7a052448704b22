//! Where memory is shared without a lock, a file that has relaxed accesses says why they may be that.
#![forbid(unsafe_code)]

use std::{fs, path::Path};

use memreel_testing::repository;

use super::unsafety::files;

/// The rooms of the library, and the packages, that programs of several threads record with.
const FOLDERS: [&str; 8] = [
    "crates/lockfree/src",
    "src/recorder",
    "src/tape",
    "src/stack",
    "src/heap",
    "src/process",
    "crates/hooks/malloc/src",
    "crates/hooks/cuda/src",
];

#[test]
fn relaxed_accesses_have_their_reason_in_the_file() {
    let all = FOLDERS.iter().flat_map(|folder| files(&repository(folder)));
    let silent: Vec<_> = all.filter(|file| is_silent(file)).collect();
    assert!(silent.is_empty(), "files with relaxed accesses and no comment on them: {silent:#?}");
}

/// Whether a file has relaxed accesses and no reason for any; those of tests need none.
fn is_silent(file: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap();
    let of_program = text.lines().take_while(|line| !line.starts_with("mod tests"));
    let (comments, code): (Vec<&str>, Vec<&str>) =
        of_program.partition(|line| line.trim_start().starts_with("//"));
    let is_test = file.iter().any(|part| part == "tests");
    let is_relaxed = code.iter().any(|line| line.contains("Ordering::Relaxed"));
    is_relaxed && !is_test && !comments.iter().any(|line| line.to_lowercase().contains("relaxed"))
}
