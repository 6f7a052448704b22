//! The project's own tasks. `cargo xtask gate` runs all checks, as `.ci/run` does; `cargo xtask gate --list` names them.
#![forbid(unsafe_code)]

mod beside;
mod cache;
mod checkout;
mod gate;
mod inputs;
mod processor;
mod steps;
mod table;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
}

fn main() -> ExitCode {
    let Task::Gate(options) = Arguments::parse().task;
    gate::run(&options)
}
