//! The gate: steps one after the other until one fails, and the table of their times.
#![forbid(unsafe_code)]

use std::{env, path::PathBuf, process::ExitCode, time::Instant};

use xshell::{Shell, cmd};

use crate::{
    cache::{Cache, Part},
    steps::{Outcome, STEPS, Step},
    table::Table,
    tools::Tools,
};

/// What a gate that failed returns, as `memreel gate` does.
const FAILED: u8 = 4;

/// Which steps to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run this step alone; may be repeated
    #[arg(long, value_name = "STEP", value_parser = clap::builder::PossibleValuesParser::new(STEPS.iter().map(|step| step.name)))]
    only: Vec<String>,
    /// List the steps
    #[arg(long)]
    list: bool,
}

/// The clone, and what all steps share.
pub(crate) struct Gate {
    /// Runs commands in the clone.
    pub(crate) shell: Shell,
    /// Where cargo builds.
    pub(crate) target: PathBuf,
    /// The folder beside the clone with recordings and with PyTorch's viewer, where it is there.
    pub(crate) shared: Option<PathBuf>,
    pub(crate) cache: Cache,
    pub(crate) tools: Tools,
}

impl Gate {
    fn new() -> Result<Gate, String> {
        // `cargo run` names the package's folder; a target folder that two clones share has one program for both.
        let package = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let root = package.parent().ok_or("xtask is not in the workspace")?.to_owned();
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
        Ok(Gate { shell, target, shared, cache, tools })
    }

    /// Where tests write snapshots for other readers.
    pub(crate) fn written(&self) -> PathBuf {
        self.target.join("tmp/snapshots")
    }

    /// Builds the training example and the program for release, in one call, so that both have one build of the library.
    /// Returns the program.
    pub(crate) fn released(&self) -> Result<PathBuf, xshell::Error> {
        self.cache.restore(Part::Release);
        cmd!(self.shell, "cargo build --quiet --release --example train --bin memreel").run()?;
        Ok(self.target.join("release/memreel"))
    }
}

/// Runs the steps that the options name, or lists them.
pub(crate) fn run(options: &Options) -> ExitCode {
    if options.list {
        STEPS.iter().for_each(|step| println!("{:<14}{}", step.name, step.what));
        return ExitCode::SUCCESS;
    }
    let gate = match Gate::new() {
        Ok(gate) => gate,
        Err(error) => {
            eprintln!("the gate cannot start: {error}");
            return ExitCode::from(FAILED);
        }
    };
    let is_asked =
        |step: &&Step| options.only.is_empty() || options.only.iter().any(|name| name == step.name);
    let steps: Vec<&Step> = STEPS.iter().filter(is_asked).collect();
    let is_whole = options.only.is_empty();
    let mut table = Table::default();
    let _fetching = is_whole.then(|| gate.tools.fetch_ahead(&gate.shell));
    let passed = steps.iter().all(|step| table.add(step, run_step(&gate, step)));
    if passed && is_whole {
        table.time("cache", || gate.cache.keep());
    }
    println!("\n{table}");
    if passed { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

fn run_step(gate: &Gate, step: &Step) -> (Result<Outcome, String>, std::time::Duration) {
    println!("\n== {}: {}", step.name, step.what);
    let begun = Instant::now();
    let outcome = (step.run)(gate).map_err(|error| error.to_string());
    match &outcome {
        Ok(Outcome::Passed) => {}
        Ok(Outcome::Skipped(why)) => println!("skipped: {why}"),
        Err(error) => {
            eprintln!("{} failed: {error}\n  run it alone: cargo xtask gate --only {}", step.name, step.name)
        }
    }
    (outcome, begun.elapsed())
}
