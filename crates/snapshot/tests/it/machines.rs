//! The files of `fixtures/` name no folder of a machine that recorded them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use memreel_testing::repository;

/// The folders that they may name: of a program, of a user without a name, and of what is installed.
const FOLDERS: [&str; 5] = ["/app/", "/home/u/", "/home/user/", "/opt/torch/", "/usr/lib/"];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// Returns the absolute paths of two parts or more in a file, each from its first slash on.
fn paths(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let is_path = move |at: &usize| {
        let n_part = bytes[at + 1..].iter().take_while(|byte| is_part(byte)).count();
        let is_first = !at
            .checked_sub(1)
            .is_some_and(|before| is_part(&bytes[before]) || b"/<>:".contains(&bytes[before]));
        bytes[*at] == b'/' && is_first && n_part > 0 && bytes[at + 1 + n_part..].starts_with(b"/")
    };
    (0..bytes.len()).filter(is_path).map(|at| &bytes[at..])
}

#[test]
fn no_file_names_a_folder_of_the_machine_that_made_it() {
    let mut all = Vec::new();
    files(&repository("fixtures"), &mut all);
    let mut named: Vec<String> = Vec::new();
    let mut n_paths = 0;
    for file in all.iter().filter(|file| {
        file.extension().is_some_and(|end| ["pickle", "json", "txt"].iter().any(|kind| end == *kind))
    }) {
        for path in paths(&fs::read(file).unwrap()) {
            n_paths += 1;
            if !FOLDERS.iter().any(|folder| path.starts_with(folder.as_bytes())) {
                named.push(format!(
                    "{}: {}",
                    file.display(),
                    String::from_utf8_lossy(&path[..path.len().min(60)])
                ));
            }
        }
    }
    assert!(named.is_empty(), "{}", named.join("\n"));
    assert!(n_paths > 100, "{n_paths}");
}
