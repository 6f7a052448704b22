//! Hashes what a step compiles and reads, and the tools that it uses.
#![forbid(unsafe_code)]

use std::{fs, path::Path};

use sha2::{Digest, Sha256};
use xshell::{Shell, cmd};

/// What the tests of `crates/fleet/` compile and read, below the root of the clone.
const OF_FLEET: &[&str] = &[
    "dev/scripts/fleet",
    "dev/scripts/venv",
    "Cargo.toml",
    "crates/cli/benches/made_ranks",
    "fixtures",
    "crates/fleet",
    "crates/lockfree",
    "rustfmt.toml",
    "schema",
    "crates/snapshot",
    "src",
    "dev/testing",
];

/// What builds and runs them, with the option that prints a version.
const TOOLS: [(&str, &str); 4] =
    [("rustc", "-vV"), ("python3", "-VV"), ("node", "--version"), ("java", "-version")];

/// Returns the hash for `crates/fleet/`; `None` if git does not list the files.
pub(crate) fn of_fleet(shell: &Shell) -> Option<String> {
    let listed = cmd!(shell, "git ls-files -z --cached --others --exclude-standard -- {OF_FLEET...}");
    let listed = listed.quiet().ignore_stderr().read().ok()?;
    let root = shell.current_dir();
    let mut hash = Sha256::new();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        add_file(&mut hash, path, &root.join(path));
    }
    if let Some(folder) = shell.var_os("MEMREEL_SNAPSHOTS") {
        let mut files = shell.read_dir(&folder).ok()?;
        files.sort();
        files.iter().for_each(|file| add_file(&mut hash, &file.to_string_lossy(), file));
    }
    for (tool, option) in TOOLS {
        let version = cmd!(shell, "{tool} {option}").quiet().ignore_status().output();
        let text = version.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
        add(&mut hash, tool, &text);
    }
    Some(text(hash))
}

/// A hash as hexadecimal digits, 64 bits of it.
pub(crate) fn text(hash: Sha256) -> String {
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Adds a name and its content. Each has its length before it, so that none can be taken for another.
pub(crate) fn add(hash: &mut Sha256, name: &str, content: &[u8]) {
    for part in [name.as_bytes(), content] {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
}

fn add_file(hash: &mut Sha256, name: &str, path: &Path) {
    // A file that git lists and that was deleted counts as empty.
    add(hash, name, &fs::read(path).unwrap_or_default());
}
