//! cargo's builds of third-party crates, in one folder of a profile.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};
use xshell::{Shell, cmd};

use crate::inputs;

/// The parts of a profile's folder. Fingerprints are copied last: without them cargo takes nothing else for built.
const FOLDERS: [&str; 3] = ["build", "deps", ".fingerprint"];

/// The workspaces of this project.
const WORKSPACES: [&str; 2] = ["Cargo.toml", "crates/fleet/Cargo.toml"];

pub(crate) struct Artefacts {
    /// Names of the workspace's packages and of what they build, as the compiler writes them.
    own: BTreeSet<String>,
    manifests: Vec<PathBuf>,
}

impl Artefacts {
    /// Reads the workspaces' names.
    pub(crate) fn new(shell: &Shell) -> Artefacts {
        let (mut own, mut manifests) = (BTreeSet::new(), Vec::new());
        for workspace in WORKSPACES {
            let read = cmd!(shell, "cargo metadata --no-deps --format-version 1 --manifest-path {workspace}")
                .quiet()
                .read();
            let read: serde_json::Value =
                read.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
            for package in read["packages"].as_array().into_iter().flatten() {
                let targets = package["targets"].as_array().into_iter().flatten();
                let names = targets.chain([package]).filter_map(|named| named["name"].as_str());
                own.extend(names.map(crate_name));
                manifests.extend(package["manifest_path"].as_str().map(PathBuf::from));
            }
        }
        Artefacts { own, manifests }
    }

    /// Returns a hash of the manifests and lock files, which determine what is built.
    pub(crate) fn hash_of_manifests(&self, shell: &Shell) -> String {
        let root = shell.current_dir();
        let locks = WORKSPACES.map(|workspace| root.join(workspace).with_file_name("Cargo.lock"));
        let mut hash = Sha256::new();
        for path in self.manifests.iter().chain(&locks) {
            let name = path.strip_prefix(&root).unwrap_or(path).to_string_lossy();
            inputs::add(&mut hash, &name, &fs::read(path).unwrap_or_default());
        }
        inputs::text(hash)
    }

    /// Copies what does not exist yet, with its times, by which cargo knows what is built. Returns the bytes.
    pub(crate) fn copy(&self, from: &Path, to: &Path) -> io::Result<u64> {
        let mut bytes = 0;
        for folder in FOLDERS {
            let (from, to) = (from.join(folder), to.join(folder));
            if !from.exists() {
                continue;
            }
            fs::create_dir_all(&to)?;
            for entry in fs::read_dir(from)? {
                let entry = entry?;
                let to = to.join(entry.file_name());
                if !self.is_own(&entry.file_name().to_string_lossy()) && !to.exists() {
                    bytes += copy_with_times(&entry.path(), &to)?;
                }
            }
        }
        Ok(bytes)
    }

    /// Returns whether `libmemreel-0f3a.rlib` or the like was built from a package of the workspace.
    fn is_own(&self, file: &str) -> bool {
        let stem = file.split('.').next().unwrap_or(file);
        let name = crate_name(stem.rsplit_once('-').map_or(stem, |(name, _)| name));
        self.own.contains(&name) || name.strip_prefix("lib").is_some_and(|name| self.own.contains(name))
    }
}

fn crate_name(name: &str) -> String {
    name.replace('-', "_")
}

fn copy_with_times(from: &Path, to: &Path) -> io::Result<u64> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        return fs::read_dir(from)?.try_fold(0, |bytes, entry| {
            let entry = entry?;
            Ok(bytes + copy_with_times(&entry.path(), &to.join(entry.file_name()))?)
        });
    }
    let bytes = fs::copy(from, to)?;
    fs::File::open(to)?.set_modified(fs::metadata(from)?.modified()?)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is named like a third party's crate is not kept, and neither is anything that depends on that crate.
    #[test]
    fn nothing_of_the_workspace_is_named_like_a_third_party() {
        let shell = Shell::new().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        shell.change_dir(root);
        let own = Artefacts::new(&shell).own;
        for workspace in WORKSPACES {
            let lock = fs::read_to_string(root.join(workspace).with_file_name("Cargo.lock")).unwrap();
            let packages = lock.split("[[package]]").filter(|package| package.contains("source = "));
            let names = packages.filter_map(|package| package.split('"').nth(1)).map(crate_name);
            let both: BTreeSet<String> = names.filter(|name| own.contains(name)).collect();
            assert!(both.is_empty(), "{workspace}: {both:?}");
        }
    }
}
