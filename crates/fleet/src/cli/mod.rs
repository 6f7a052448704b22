//! The program `memreel-fleet`.

mod args;
mod cluster;
mod exit;
mod export;
mod output;
mod progress;
mod query;
mod suggest;

use std::ffi::OsString;

use clap::Parser;

use args::{Args, Command};
use exit::{Exit, Failure};

/// Runs the program: `words` are those of its command line, the name of the program first. Returns its exit status.
#[must_use]
pub fn run(words: Vec<OsString>) -> u8 {
    let args = match Args::try_parse_from(words) {
        Ok(args) => args,
        Err(error) => {
            // Its reader may have gone.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8);
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::unreadable(error).report() as u8,
    };
    let done = runtime.block_on(async {
        match &args.command {
            Command::Query(options) => query::run(options).await,
            Command::Export(options) => export::run(options).await,
            Command::Tables => output::tables(),
            Command::Scheduler(words) => cluster::scheduler(words).await,
            Command::Executor(words) => cluster::executor(words).await,
        }
    });
    // Threads that still read files for a query that has its answer are not waited for.
    runtime.shutdown_background();
    done.unwrap_or_else(Failure::report) as u8
}
