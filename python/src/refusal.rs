//! Converts refusals of the program to Python exceptions.

#![forbid(unsafe_code)]

use memreel_cli::Refusal;
use pyo3::{
    Bound, PyErr, PyResult, Python,
    types::{PyAnyMethods, PyType},
};

/// Returns the exception of `memreel._errors` for a refusal, by the exit status that the program would have.
pub(crate) fn exception(py: Python<'_>, refusal: Refusal) -> PyErr {
    let name = match refusal.status {
        1 => "HistoryError",
        2 => "UsageError",
        _ => "UnreadableError",
    };
    match class(py, name) {
        Ok(class) => PyErr::from_type(class, refusal.message),
        Err(error) => error,
    }
}

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    Ok(py.import("memreel._errors")?.getattr(name)?.cast_into::<PyType>()?)
}
