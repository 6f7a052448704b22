//! The clone, and what all steps share.
#![forbid(unsafe_code)]

use std::{env, error::Error, path::PathBuf};

use xshell::{Shell, cmd};

use crate::{
    cache::{Cache, Part},
    outside, pages,
    tools::Tools,
};

/// The variable that names the program, in the steps that run in parallel.
pub(crate) const PROGRAM: &str = "MEMREEL_GATE_PROGRAM";

/// A clone of the repository.
pub(crate) struct Checkout {
    /// Runs commands in the clone.
    pub(crate) shell: Shell,
    /// Where cargo builds.
    pub(crate) target: PathBuf,
    /// The folder next to the clone with recordings and PyTorch's viewer, if it exists.
    pub(crate) shared: Option<PathBuf>,
    pub(crate) cache: Cache,
    pub(crate) tools: Tools,
}

impl Checkout {
    pub(crate) fn open() -> Result<Checkout, String> {
        let root = outside::folder().ancestors().nth(2).ok_or("xtask is not in the workspace")?.to_owned();
        let shell = Shell::new().map_err(|error| error.to_string())?;
        shell.change_dir(&root);
        // A clone is built once here; what later builds would reuse costs time and room.
        shell.set_var("CARGO_INCREMENTAL", "0");
        let target = root.join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
        let cache = Cache::open(&shell, &target);
        let tools = Tools::new(cache.folder().unwrap_or(&target).join("tools"));
        let shared = root.with_file_name("shared");
        let shared = shared.join("reference").is_dir().then_some(shared);
        if let Some(shared) = &shared {
            let recordings = shared.join("reference/torch-2.11");
            shell.set_var("MEMREEL_SCENARIOS", recordings.join("scenarios"));
            shell.set_var("MEMREEL_SNAPSHOTS", recordings.join("snapshots"));
        }
        Ok(Checkout { shell, target, shared, cache, tools })
    }

    /// Returns where tests write snapshots for other readers.
    pub(crate) fn written(&self) -> PathBuf {
        self.target.join("tmp/snapshots")
    }

    /// Returns the program, with the libraries of a recording beside it. Steps beside others are told which: cargo would wait
    /// for theirs.
    pub(crate) fn program(&self) -> Result<PathBuf, xshell::Error> {
        if let Some(built) = env::var_os(PROGRAM) {
            return Ok(built.into());
        }
        self.cache.restore(Part::Debug);
        cmd!(self.shell, "cargo build --quiet -p memreel-cli -p memreel-preload -p memreel-heap").run()?;
        Ok(self.target.join("debug/memreel"))
    }

    /// Generates the pages that `dev/scripts/book.py` adds to the site.
    pub(crate) fn make_pages(&self) -> Result<(), Box<dyn Error>> {
        let root = self.shell.current_dir();
        let pages = pages::made(&self.program()?, &root)?;
        // Beside the site, for which book.toml names the folder.
        let folder = root.join("target/pages");
        self.shell.remove_path(&folder)?;
        pages::write(&pages, &folder)?;
        Ok(())
    }
}
