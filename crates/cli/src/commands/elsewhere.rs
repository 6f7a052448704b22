//! The commands that need Linux, on systems on which memreel only reads: each reports that.

#![forbid(unsafe_code)]

use std::ffi::OsString;

use crate::{exit::Exit, failure::Failure, text::Printed};

/// Accepts any options of a command that needs Linux.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

fn needs_linux(name: &str, _options: &Options) -> Result<Exit, Failure> {
    Err(Failure::usage(format!(
        "`memreel {name}` needs Linux; on this system memreel only reads what was \
         recorded there"
    )))
}

/// Runs a program and records its memory.
pub(super) mod record {
    use super::*;
    use crate::row::Program;

    pub(crate) fn run(options: &Options, _program: &Program, _out: &mut Printed) -> Result<Exit, Failure> {
        needs_linux("record", options)
    }
}

/// Attaches to a process that runs.
pub(super) mod attach {
    use super::*;
    use crate::row::Program;

    pub(crate) fn run(options: &Options, _program: &Program, _out: &mut Printed) -> Result<Exit, Failure> {
        needs_linux("attach", options)
    }
}

/// Watches processes that run.
pub(super) mod watch {
    use super::*;

    pub(crate) fn run(options: &Options, _out: &mut Printed) -> Result<Exit, Failure> {
        needs_linux("watch", options)
    }
}

/// Serves assistants: what a question may use is limited by Linux.
#[cfg_attr(not(feature = "mcp"), allow(unused, reason = "it was built without the server"))]
pub(super) mod mcp {
    use super::*;
    use crate::row::Program;

    pub(crate) fn run(options: &Options, _program: &Program, _out: &mut Printed) -> Result<Exit, Failure> {
        needs_linux("mcp", options)
    }
}

/// Checks what works for recording.
pub(super) mod doctor {
    use super::*;
    use crate::row::Program;

    pub(crate) fn run(options: &Options, _program: &Program, _out: &mut Printed) -> Result<Exit, Failure> {
        needs_linux("doctor", options)
    }
}
