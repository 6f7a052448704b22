//! The project's own tasks. `cargo xtask gate` runs all checks, as `.ci/run` does; `cargo xtask gate --list` names them.
//! `cargo xtask pages` makes the pages of the site that git does not keep.
#![forbid(unsafe_code)]

mod beside;
mod cache;
mod checkout;
mod gate;
mod inputs;
pub mod pages;
mod processor;
mod steps;
mod table;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::checkout::Checkout;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of the memreel project")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run all checks, each step with its time in a table at the end
    Gate(gate::Options),
    /// Make the pages of the commands and of `--json` for the site, in target/pages
    Pages,
}

/// Runs the task that the command line names.
#[must_use]
pub fn run() -> ExitCode {
    match Arguments::parse().task {
        Task::Gate(options) => gate::run(&options),
        Task::Pages => {
            match Checkout::open().map_err(Into::into).and_then(|checkout| checkout.make_pages()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("the pages were not made: {error}");
                    ExitCode::FAILURE
                }
            }
        }
    }
}
