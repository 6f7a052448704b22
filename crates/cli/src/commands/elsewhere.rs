//! The commands that need Linux, on systems on which memreel only reads: each reports that.

#![forbid(unsafe_code)]

use std::ffi::OsString;

use crate::{exit::Exit, failure::Failure, input::Opener, text::Page};

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

    pub(crate) fn run(options: &Options, _program: &Program, _out: &mut Page) -> Result<Exit, Failure> {
        needs_linux("record", options)
    }
}

/// Attaches to a process that runs.
pub(super) mod attach {
    use super::*;
    use crate::row::Program;

    pub(crate) fn run(options: &Options, _program: &Program, _out: &mut Page) -> Result<Exit, Failure> {
        needs_linux("attach", options)
    }
}

/// Watches processes that run.
pub(super) mod watch {
    use super::*;

    pub(crate) fn run(options: &Options, _opener: &Opener, _out: &mut Page) -> Result<Exit, Failure> {
        needs_linux("watch", options)
    }
}

#[cfg(target_family = "wasm")]
fn not_in_a_page(name: &str) -> Result<Exit, Failure> {
    Err(Failure::usage(format!(
        "`memreel {name}` is a command of the installed program; this one is in a page"
    )))
}

/// Serves the page, which is what shows this.
#[cfg(target_family = "wasm")]
pub(super) mod view {
    use super::*;
    use crate::row::Program;

    pub(crate) fn run(_options: &Options, _program: &Program, _out: &mut Page) -> Result<Exit, Failure> {
        not_in_a_page("view")
    }
}

/// Prints completion scripts: a page has no shell.
#[cfg(target_family = "wasm")]
pub(super) mod completions {
    use super::*;
    use crate::row::Program;

    pub(crate) fn run(_options: &Options, _program: &Program, _out: &mut Page) -> Result<Exit, Failure> {
        not_in_a_page("completions")
    }
}

/// Prints manual pages.
#[cfg(target_family = "wasm")]
pub(super) mod man {
    use super::*;
    use crate::row::Program;

    pub(crate) fn run(_options: &Options, _program: &Program, _out: &mut Page) -> Result<Exit, Failure> {
        not_in_a_page("man")
    }
}

/// Serves assistants: what a question may use is limited by Linux.
#[cfg_attr(not(feature = "mcp"), allow(unused, reason = "it was built without the server"))]
pub(super) mod mcp {
    use super::*;
    use crate::row::Program;

    pub(crate) fn run(options: &Options, _program: &Program, _out: &mut Page) -> Result<Exit, Failure> {
        needs_linux("mcp", options)
    }
}

/// Checks what works for recording.
pub(super) mod doctor {
    use super::*;
    use crate::row::Program;

    pub(crate) fn run(options: &Options, _program: &Program, _out: &mut Page) -> Result<Exit, Failure> {
        needs_linux("doctor", options)
    }
}
