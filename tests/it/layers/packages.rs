//! The packages of the repository: the members of its workspace, `fleet`, and those hidden below others.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use memreel_testing::repository;

/// A package with code in `src`.
#[derive(Debug)]
pub(super) struct Package {
    /// Its folder, below the repository's.
    pub(super) name: String,
    /// The folder of its code.
    pub(super) src: PathBuf,
    /// The file that its code begins with.
    pub(super) root: PathBuf,
}

/// Returns every package with a `src/lib.rs` or a `src/main.rs`, the library first.
pub(super) fn packages() -> Vec<Package> {
    let mut found = Vec::new();
    let mut open = vec![repository("")];
    while let Some(folder) = open.pop() {
        let src = folder.join("src");
        let roots = [src.join("lib.rs"), src.join("main.rs")];
        if let Some(root) = roots.into_iter().find(|root| root.exists() && folder.join("Cargo.toml").exists())
        {
            let name = folder.strip_prefix(repository("")).expect("a folder of the repository");
            found.push(Package { name: name.display().to_string(), src, root });
        }
        let below = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap());
        let folders = below.filter(|entry| entry.file_type().unwrap().is_dir()).map(|entry| entry.path());
        open.extend(folders.filter(|folder| is_of_repository(folder)));
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// Whether a folder is not hidden, as `.git` is, and not made by Cargo.
fn is_of_repository(folder: &Path) -> bool {
    let is_hidden = folder.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
    !is_hidden && !folder.ends_with("target") && !folder.join("CACHEDIR.TAG").exists()
}

#[test]
fn every_member_of_the_workspace_is_read() {
    let manifest = fs::read_to_string(repository("Cargo.toml")).unwrap();
    let members = manifest.split("\nmembers = [").nth(1).and_then(|rest| rest.split(']').next());
    let members =
        members.expect("the members of the workspace").split(',').map(|name| name.trim().trim_matches('"'));
    let packages = packages();
    for member in members.filter(|name| !name.is_empty()).chain(["crates/fleet", "crates/cli/tests/cudarc"]) {
        let name = if member == "." { "" } else { member };
        assert!(packages.iter().any(|package| package.name == name), "{member} is not in {packages:#?}");
    }
}
