//! The gate: runs steps one after another until one fails, and prints the table of their times.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use crate::{
    beside::Beside,
    checkout::Checkout,
    steps::{Outcome, STEPS, Step},
    table::Table,
};

/// The exit status of a gate that failed, as of `memreel gate`.
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
    let run = |table: &mut Table, steps: &[&'static Step]| {
        steps.iter().all(|step| table.add(step.name, || run_step(&checkout, step)))
    };
    let passed = if is_whole {
        let (beside, alone): (Vec<_>, Vec<_>) = steps.into_iter().partition(|step| step.is_beside);
        let n_before = alone.iter().position(|step| step.name == "test").map_or(0, |place| place + 1);
        let (before, others) = alone.split_at(n_before);
        run(&mut table, before) && run_beside(&checkout, &mut table, &beside, |table| run(table, others))
    } else {
        run(&mut table, &steps)
    };
    if passed && is_whole {
        table.time("cache", || checkout.cache.keep());
    }
    println!("\n{table}");
    if passed { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

/// Runs steps in parallel; returns whether all passed. Their times are in a separate table.
fn run_beside(
    checkout: &Checkout,
    table: &mut Table,
    steps: &[&Step],
    others: impl FnOnce(&mut Table) -> bool,
) -> bool {
    let started = Beside::start(checkout, steps);
    let passed = others(table);
    let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
    println!("\n== beside: {}", names.join(", "));
    table.add("beside", || started.and_then(Beside::finish)) && passed
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
