//! `memreel._memreel`, the extension of the Python package: the whole program, and its commands on snapshots in memory.
//!
//! What a question is, and how its answer looks, is defined by the program. Python asks in the words of the command line and
//! gets the text, or the lines of `--json`; only tables with a row for each event, block or frame are made here, because
//! they go to other libraries as Arrow arrays.

#[cfg(unix)]
mod own_memory;
mod refusal;
mod table;
mod columns;
mod events;
mod blocks;
mod stacks;
mod opened;

use pyo3::pymodule;

#[cfg(unix)]
#[global_allocator]
static ALLOCATOR: own_memory::OwnMemory = own_memory::OwnMemory;

/// The functions and classes that Python sees.
#[pymodule(gil_used = false)]
mod _memreel {
    use std::{ffi::OsString, path::PathBuf};

    use pyo3::{PyResult, Python, pyfunction, types::PyAnyMethods};

    #[pymodule_export]
    use crate::opened::{Opened, ask, join_torch};
    #[pymodule_export]
    use crate::table::{Table, table};

    use crate::refusal::exception;

    /// Runs the program with the words of a command line, the program's name first; returns its exit status.
    ///
    /// The program is started again as `python -m memreel`, by this interpreter.
    #[pyfunction]
    fn main(py: Python<'_>, words: Vec<OsString>) -> PyResult<u8> {
        let python: OsString = py.import("sys")?.getattr("executable")?.extract()?;
        let program = vec![python, "-m".into(), "memreel".into()];
        Ok(py.detach(|| memreel_cli::run_as(words, program)))
    }

    /// Returns whether a file is a log with the message of a request that failed.
    #[pyfunction]
    fn is_log(py: Python<'_>, path: PathBuf) -> bool {
        py.detach(|| memreel_cli::is_log(&path))
    }

    /// Reads a size as the options of the program do, 0 included; returns bytes.
    #[pyfunction]
    fn parse_bytes(py: Python<'_>, text: &str) -> PyResult<u64> {
        memreel_cli::parse_bytes(text).map_err(|refusal| exception(py, refusal))
    }

    /// Reads a share as the options of the program do; returns percent.
    #[pyfunction]
    fn parse_percent(py: Python<'_>, text: &str) -> PyResult<f64> {
        memreel_cli::parse_percent(text).map_err(|refusal| exception(py, refusal))
    }

    /// Returns the rank that a launcher gave this process; `None` outside a distributed run.
    #[pyfunction]
    fn launched_rank() -> Option<u64> {
        memreel::integrate::rank()
    }

    /// Returns the name of the machine as a part of a file's name.
    #[pyfunction]
    fn host() -> String {
        memreel::integrate::host()
    }

    /// Returns a UTC time as a part of a file name, such as `20261122T223015Z`.
    #[pyfunction]
    fn time_text() -> String {
        memreel::integrate::time_text(std::time::SystemTime::now())
    }

    /// Returns a size as the program prints it, such as `1.5 MiB`.
    #[pyfunction]
    fn bytes_text(bytes: u64) -> String {
        memreel_snapshot::analysis::Bytes(bytes).to_string()
    }
}
