//! The project's own tasks. `cargo xtask gate` runs all checks, as `.ci/run` does; `cargo xtask gate --list` names them.
//! `cargo xtask pages` makes the pages of the site that git does not keep, and `cargo xtask new command NAME` begins a command.
#![forbid(unsafe_code)]

mod beside;
mod cache;
mod checkout;
mod gate;
mod inputs;
mod new_command;
mod outside;
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
    /// Write what a new part of the project begins with, and say what is left
    #[command(subcommand)]
    New(New),
}

#[derive(Subcommand)]
enum New {
    /// A command of memreel that answers about files
    Command(new_command::Command),
}

/// Runs the task that the command line names.
#[must_use]
pub fn run() -> ExitCode {
    if let Some(status) = outside::run() {
        return status;
    }
    let done = match Arguments::parse().task {
        Task::Gate(options) => return gate::run(&options),
        Task::Pages => Checkout::open().map_err(Into::into).and_then(|checkout| checkout.make_pages()),
        Task::New(New::Command(command)) => new_command::make(&command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
