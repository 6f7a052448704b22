//! Runs steps in parallel with the others: a separate gate, whose output is printed when it has ended.
#![forbid(unsafe_code)]

use std::{
    env,
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use crate::{
    checkout::{Checkout, PROGRAM},
    steps::{Outcome, Step},
};

/// The process that runs them.
pub(crate) struct Beside {
    child: Child,
    output: PathBuf,
}

impl Beside {
    /// Starts these steps, one after another.
    pub(crate) fn start(checkout: &Checkout, steps: &[&Step]) -> Result<Beside, String> {
        let program = checkout.program().map_err(|error| error.to_string())?;
        let output = checkout.target.join("tmp/beside.txt");
        let start = || {
            let file = File::create(&output)?;
            let mut gate = Command::new(env::current_exe()?);
            gate.arg("gate").args(steps.iter().flat_map(|step| ["--only", step.name]));
            // Both streams in one file, in their order.
            gate.env(PROGRAM, program).stdin(Stdio::null()).stderr(file.try_clone()?).stdout(file).spawn()
        };
        let child = start().map_err(|error: std::io::Error| error.to_string())?;
        Ok(Beside { child, output })
    }

    /// Waits until they have ended, and prints what they printed.
    pub(crate) fn finish(mut self) -> Result<Outcome, String> {
        let status = self.child.wait().map_err(|error| error.to_string())?;
        println!("{}", fs::read_to_string(&self.output).unwrap_or_default());
        if status.success() { Ok(Outcome::Passed) } else { Err("a step beside the others failed".to_owned()) }
    }
}
