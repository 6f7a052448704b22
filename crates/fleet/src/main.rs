//! The program `memreel-fleet`.

#![forbid(unsafe_code)]

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    memreel_fleet::cli::run(env::args_os().collect()).into()
}
