//! The settings of the server.

#![forbid(unsafe_code)]

use std::{ffi::OsString, path::PathBuf};

use crate::limits::Limits;

/// What a server needs to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The words that start the program `memreel`, before its command. Paths in them must be absolute.
    pub program: Vec<OsString>,
    /// The program's command line.
    pub commands: clap::Command,
    /// The commands that are tools: those that answer questions about files and write none.
    pub tools: Vec<&'static str>,
    /// What one question may use, and how long its answer may be.
    pub limits: Limits,
    /// The folders whose files questions may be about; empty means every file that the process may read.
    pub roots: Vec<PathBuf>,
}
