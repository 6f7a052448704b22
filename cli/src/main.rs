//! The program `memreel`.

#![forbid(unsafe_code)]

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    memreel_cli::run(env::args_os().collect()).into()
}
