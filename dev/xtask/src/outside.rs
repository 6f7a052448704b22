//! Runs the tasks outside of cargo's environment for one package.
//!
//! `cargo run` sets variables about `xtask`. Build scripts of third parties name some of them as their inputs, so with
//! them each clone would build ring, and all that depends on it, again.
#![forbid(unsafe_code)]

use std::{
    env,
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
};

/// The folder of this package, for the process without cargo's variables.
const FOLDER: &str = "MEMREEL_XTASK_FOLDER";

/// Runs this program again without cargo's variables, if it has them; returns its status.
pub(crate) fn run() -> Option<ExitCode> {
    let folder = env::var_os("CARGO_MANIFEST_DIR")?;
    let mut again = Command::new(env::current_exe().ok()?);
    again.args(env::args_os().skip(1)).env(FOLDER, folder).stdin(Stdio::inherit());
    let is_of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_of_package)) {
        again.env_remove(name);
    }
    let status = again.status().ok()?;
    Some(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Returns the folder of this package in the clone from which it was started: a target folder that two clones share has
/// one program for both.
pub(crate) fn folder() -> PathBuf {
    env::var_os(FOLDER).map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}
