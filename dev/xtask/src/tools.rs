//! What steps need besides Rust, in the cache folder: PyTorch's viewer, npm packages, Python environments.
//!
//! Each is made under a lock, once for all clones, and scripts in `dev/scripts` make their own in the same way (`dev/scripts/venv`).
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use xshell::{Shell, cmd};

pub(crate) struct Tools {
    folder: PathBuf,
}

impl Tools {
    pub(crate) fn new(folder: PathBuf) -> Tools {
        Tools { folder }
    }

    /// Returns the folder, for scripts that create their own tools in it.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns PyTorch's viewer and Chromium's driver, set up by the script `setup`.
    pub(crate) fn viewer(&self, shell: &Shell, setup: &Path) -> Result<PathBuf, xshell::Error> {
        let (viewer, lock) = (self.folder.join("viewer"), self.lock(shell, "viewer")?);
        cmd!(shell, "flock {lock} sh {setup} {viewer}").run()?;
        Ok(viewer)
    }

    /// Returns the folder in which npm has installed a package; `None` if it cannot.
    pub(crate) fn npm(&self, shell: &Shell, package: &str) -> Option<PathBuf> {
        let folder = self.folder.join(package);
        let lock = self.lock(shell, package).ok()?;
        if !folder.join("node_modules").join(package).exists() {
            let install = cmd!(
                shell,
                "flock {lock} npm install --silent --no-fund --no-audit --prefix {folder} {package}"
            );
            install.quiet().ignore_stdout().ignore_stderr().run().ok()?;
        }
        Some(folder)
    }

    fn lock(&self, shell: &Shell, name: &str) -> Result<PathBuf, xshell::Error> {
        shell.create_dir(&self.folder)?;
        Ok(self.folder.join(format!("{name}.lock")))
    }

    /// Fetches in the background what later steps would otherwise wait for. A failure here is reported by its step.
    pub(crate) fn fetch_ahead(&self, shell: &Shell) -> Fetching {
        let scripts = ["dev/scripts/python", "dev/scripts/fleet"];
        let log =
            || fs::create_dir_all(&self.folder).and_then(|()| fs::File::create(self.folder.join("log")));
        let start = |script: &&str| {
            let log = log().ok()?;
            let mut fetch = Command::new(shell.current_dir().join(script));
            fetch.arg(&self.folder).arg("--fetch").current_dir(shell.current_dir()).stdin(Stdio::null());
            fetch.stdout(log.try_clone().ok()?).stderr(log).spawn().ok()
        };
        Fetching(scripts.iter().filter_map(start).collect())
    }
}

/// The processes that fetch; they end with the gate.
pub(crate) struct Fetching(Vec<Child>);

impl Drop for Fetching {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It has ended already, as a rule.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
