//! The gate: steps one after the other until one fails, and the table of their times.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use crate::{
    checkout::Checkout,
    steps::{Outcome, STEPS, Step},
    table::Table,
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

/// Runs the steps that the options name, or lists them.
pub(crate) fn run(options: &Options) -> ExitCode {
    if options.list {
        STEPS.iter().for_each(|step| println!("{:<14}{}", step.name, step.what));
        return ExitCode::SUCCESS;
    }
    let checkout = match Checkout::open() {
        Ok(checkout) => checkout,
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
    let _fetching = is_whole.then(|| checkout.tools.fetch_ahead(&checkout.shell));
    let passed = steps.iter().all(|step| table.add(step, || run_step(&checkout, step)));
    if passed && is_whole {
        table.time("cache", || checkout.cache.keep());
    }
    println!("\n{table}");
    if passed { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

fn run_step(checkout: &Checkout, step: &Step) -> Result<Outcome, String> {
    println!("\n== {}: {}", step.name, step.what);
    let outcome = (step.run)(checkout).map_err(|error| error.to_string());
    match &outcome {
        Ok(Outcome::Passed) => {}
        Ok(Outcome::Skipped(why)) => println!("skipped: {why}"),
        Err(error) => {
            eprintln!("{} failed: {error}\n  run it alone: cargo xtask gate --only {}", step.name, step.name)
        }
    }
    outcome
}
