//! Caches third-party builds and tools in a folder outside the clone, which any clone on this machine uses.
//!
//! `MEMREEL_GATE_CACHE` names the folder; without it, it is `memreel-gate` in the user's folder for caches. A run that
//! cannot read or write it takes longer and reports that; nothing else depends on it.
//!
//! ```text
//! builds/PART-COMPILER-MANIFESTS/   what cargo made of crates that are not the workspace's, of one part of `target`
//! tools/                            what steps need besides Rust
//! passed/STEP-HASH                  the inputs with which a step has passed
//! ```
#![forbid(unsafe_code)]

mod artefacts;
#[cfg(test)]
mod tests;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process,
    time::SystemTime,
};

use sha2::{Digest, Sha256};
use xshell::{Shell, cmd};

use self::artefacts::Artefacts;
use crate::inputs;

const VARIABLE: &str = "MEMREEL_GATE_CACHE";
/// The largest size of the folder after a run.
const MOST_BYTES: u64 = 15 << 30;
/// A larger entry is not the base of the next one, because what is no longer used remains in it.
const MOST_BYTES_OF_BASE: u64 = 4 << 30;

/// One of cargo's folders that is kept: a profile of a workspace.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    Debug,
    Release,
    Loom,
    Fleet,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Debug => "debug",
            Part::Release => "release",
            Part::Loom => "loom",
            Part::Fleet => "fleet",
        }
    }

    /// Returns its path below the target folder.
    fn folder(self) -> &'static str {
        match self {
            Part::Debug => "debug",
            Part::Release => "release",
            Part::Loom => "loom/loom",
            Part::Fleet => "fleet/debug",
        }
    }
}

pub(crate) struct Cache {
    /// `None` if it cannot be written.
    folder: Option<PathBuf>,
    target: PathBuf,
    compiler: String,
    manifests: String,
    artefacts: Artefacts,
}

impl Cache {
    /// Opens the folder that the variable or the user's folder for caches names.
    pub(crate) fn open(shell: &Shell, target: &Path) -> Cache {
        Cache::at(chosen(), shell, target)
    }

    /// Opens a folder, creating it if it does not exist yet.
    fn at(folder: Option<PathBuf>, shell: &Shell, target: &Path) -> Cache {
        let folder = folder.filter(|folder| {
            let is_writable = fs::create_dir_all(folder.join("builds"))
                .and_then(|()| fs::create_dir_all(folder.join("passed")))
                .and_then(|()| fs::write(folder.join(".written"), []));
            if let Err(error) = &is_writable {
                println!("no cache: {}: {error}; name another folder in {VARIABLE}", folder.display());
            }
            is_writable.is_ok()
        });
        let compiler = cmd!(shell, "rustc -vV").quiet().read().unwrap_or_default();
        let artefacts = Artefacts::new(shell);
        let mut compiler_hash = Sha256::new();
        inputs::add(&mut compiler_hash, "rustc", compiler.as_bytes());
        Cache {
            folder,
            target: target.to_owned(),
            compiler: inputs::text(compiler_hash),
            manifests: artefacts.hash_of_manifests(shell),
            artefacts,
        }
    }

    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Restores an earlier run's builds of third-party crates, if this clone has none.
    pub(crate) fn restore(&self, part: Part) {
        let Some((folder, entry)) = self.folder.as_ref().and_then(|folder| Some((folder, self.base(part)?)))
        else {
            return;
        };
        let entry = folder.join("builds").join(entry);
        match self.artefacts.copy(&entry, &self.target.join(part.folder())) {
            Ok(0) => {}
            Ok(bytes) => println!("cache: {} MB of {}", bytes / 1_000_000, entry.display()),
            Err(error) => println!("cache: {} could not be used: {error}", entry.display()),
        }
    }

    /// Keeps this run's builds, and removes the oldest entries until the folder is within its limit.
    pub(crate) fn keep(&self) {
        let Some(folder) = &self.folder else { return };
        for part in [Part::Debug, Part::Release, Part::Loom, Part::Fleet] {
            if let Err(error) = self.keep_part(folder, part) {
                println!("cache: {} is not kept: {error}", part.name());
            }
        }
        if let Err(error) = trim(folder, MOST_BYTES) {
            println!("cache: {}: {error}", folder.display());
        }
    }

    fn keep_part(&self, folder: &Path, part: Part) -> io::Result<()> {
        let (made, builds) = (self.target.join(part.folder()), folder.join("builds"));
        let entry = builds.join(self.entry(part));
        if entry.exists() || !made.exists() {
            return Ok(());
        }
        // Under another name until it is whole.
        let begun = builds.join(format!(".{}-{}", part.name(), process::id()));
        let kept = self.artefacts.copy(&made, &begun).and_then(|_| fs::rename(&begun, &entry));
        if kept.is_err() {
            fs::remove_dir_all(&begun).ok();
        }
        kept
    }

    /// The name of the entry of exactly this compiler and these manifests.
    fn entry(&self, part: Part) -> String {
        format!("{}-{}-{}", part.name(), self.compiler, self.manifests)
    }

    /// Returns that entry, or the newest one of this compiler.
    fn base(&self, part: Part) -> Option<String> {
        let builds = self.folder.as_ref()?.join("builds");
        let exact = self.entry(part);
        if builds.join(&exact).exists() {
            // So that the entry counts as used.
            fs::File::open(builds.join(&exact)).and_then(|file| file.set_modified(SystemTime::now())).ok();
            return Some(exact);
        }
        let begin = format!("{}-{}-", part.name(), self.compiler);
        let entries = fs::read_dir(&builds).ok()?.flatten().filter(|entry| {
            entry.file_name().to_string_lossy().starts_with(&begin)
                && size(&entry.path()).is_ok_and(|bytes| bytes < MOST_BYTES_OF_BASE)
        });
        let newest =
            entries.max_by_key(|entry| entry.metadata().and_then(|metadata| metadata.modified()).ok())?;
        Some(newest.file_name().to_string_lossy().into_owned())
    }

    /// Returns whether a step has passed with inputs of this hash.
    pub(crate) fn has_passed(&self, step: &str, hash: &str) -> bool {
        self.folder.as_ref().is_some_and(|folder| passed(folder, step, hash).exists())
    }

    pub(crate) fn note_passed(&self, step: &str, hash: &str) {
        if let Some(folder) = &self.folder {
            // Without it the step runs again.
            fs::write(passed(folder, step, hash), []).ok();
        }
    }
}

fn passed(folder: &Path, step: &str, hash: &str) -> PathBuf {
    folder.join("passed").join(format!("{step}-{hash}"))
}

fn chosen() -> Option<PathBuf> {
    let of_user = || {
        let caches = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        Some(caches.or_else(|| Some(env::home_dir()?.join(".cache")))?.join("memreel-gate"))
    };
    env::var_os(VARIABLE).map(PathBuf::from).or_else(of_user)
}

/// Removes the entries and tools that were used least recently, until the rest is within the bound.
fn trim(folder: &Path, most_bytes: u64) -> io::Result<()> {
    let mut entries = Vec::new();
    for below in ["builds", "tools"] {
        for entry in fs::read_dir(folder.join(below)).into_iter().flatten() {
            let entry = entry?;
            entries.push((entry.metadata()?.modified()?, size(&entry.path())?, entry.path()));
        }
    }
    entries.sort();
    let mut bytes: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
    println!("cache: {} MB in {}", bytes / 1_000_000, folder.display());
    for (_, entry_bytes, path) in entries {
        if bytes <= most_bytes {
            break;
        }
        println!("cache: removed {}", path.display());
        if path.is_dir() {
            fs::remove_dir_all(&path)?
        } else {
            fs::remove_file(&path)?
        };
        bytes -= entry_bytes;
    }
    Ok(())
}

/// Returns the bytes of a file, or of all files in a folder.
fn size(path: &Path) -> io::Result<u64> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    fs::read_dir(path)?.map(|entry| size(&entry?.path())).sum()
}
