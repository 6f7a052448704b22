//! The interpreters of Python of this machine.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    str::from_utf8,
};

/// Returns the interpreters that memreel can read, by version: `python3`, those of pyenv, and those in
/// `MEMREEL_PYTHONS`, separated by colons.
#[must_use]
pub fn interpreters() -> BTreeMap<String, PathBuf> {
    let named = env::var_os("MEMREEL_PYTHONS").unwrap_or_default();
    let pyenv = Path::new(&env::var_os("HOME").unwrap_or_default()).join(".pyenv/versions");
    let of_pyenv = fs::read_dir(pyenv).into_iter().flatten().flatten();
    let all = env::split_paths(&named)
        .chain(of_pyenv.map(|version| version.path().join("bin/python3")))
        .chain(["python3".into(), "/usr/bin/python3".into()]);
    let version = |python: &PathBuf| {
        // A test in an emulator finds those of the machine outside too.
        let program = "import os, sys; is_known = sys.version_info >= (3, 9) and os.uname().machine == sys.argv[1]; \
                       print('%d.%d.%d' % sys.version_info[:3], is_known, end='')";
        let output = Command::new(python).args(["-c", program, env::consts::ARCH]).output().ok()?;
        from_utf8(&output.stdout).ok()?.strip_suffix(" True").map(str::to_owned)
    };
    all.filter_map(|python| Some((version(&python)?, python))).collect()
}
