//! The program `memreel`.

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    memreel_cli::run(env::args_os().collect()).into()
}

/// Runs before Rust's runtime, which opens standard streams that are closed and ignores a signal.
#[cfg(target_os = "linux")]
#[used]
// SAFETY: the loader calls what is in this section, with arguments that the function leaves alone.
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = memreel_cli::at_start;
