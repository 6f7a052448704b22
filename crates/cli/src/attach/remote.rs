//! Enters a process from CPython 3.14 on: an interpreter of the same version calls `sys.remote_exec`.

#![forbid(unsafe_code)]

use std::{
    path::Path,
    process::{Command, Stdio},
};

use super::target::{Target, refused};
use crate::{failure::Failure, text::clean};

/// What the interpreter runs: the number of the process and the script are its arguments.
const CALL: &str = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])";

/// Requests that a process runs a script.
pub(super) fn request(program: &Path, target: &Target, script: &str) -> Result<(), Failure> {
    target.is_what_it_was().map_err(|error| target.failed(&error))?;
    let mut command = Command::new(program);
    // Imports nothing of the user's.
    command.args(["-I", "-S", "-c", CALL]).arg(target.process.to_string()).arg(script);
    let output = command.stdin(Stdio::null()).output();
    let failed = |why: &str| {
        refused(format!("{}: sys.remote_exec of {} failed: {}", target.name(), program.display(), clean(why)))
    };
    let output = output.map_err(|error| failed(&error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(said.lines().next_back().unwrap_or("it said nothing").trim()))
}
