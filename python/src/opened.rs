//! `Opened`: a snapshot in memory that Python asks about.

#![forbid(unsafe_code)]

use std::{path::PathBuf, sync::Arc};

use memreel_cli::{NamedSnapshot, Refusal, load};
use memreel_snapshot::{DeviceId, Snapshot, analysis, join::merge_torch, pickle};
use pyo3::{Py, PyResult, Python, pyclass, pyfunction, pymethods};

use crate::{
    blocks::{Blocks, Segments},
    events::Events,
    refusal::exception,
    stacks::Stacks,
    table::Table,
};

/// A snapshot in memory.
#[pyclass(frozen, module = "memreel._memreel")]
pub(crate) struct Opened(NamedSnapshot);

#[pymethods]
impl Opened {
    /// Reads a file: a pickle, JSON as viewers load it, or a tape. Nothing in it is executed.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Opened> {
        py.detach(|| load(&path)).map(Opened).map_err(|refusal| exception(py, refusal))
    }

    /// The name of its file.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// The number of events of all devices.
    #[getter]
    fn n_events(&self) -> usize {
        self.0.snapshot.n_events()
    }

    /// The devices that have events or segments.
    #[getter]
    fn devices(&self, py: Python<'_>) -> Vec<i64> {
        py.detach(|| analysis::devices(&self.0.snapshot)).into_iter().map(|device| device.0).collect()
    }

    /// Returns the devices that a question without a device can be about: those that are not reported as host memory
    /// or, if there are no others, that.
    #[getter]
    fn likely_devices(&self) -> Vec<i64> {
        let (host, others) = self.devices_by_kind();
        if others.is_empty() { host } else { others }
    }

    /// The devices that are not said to be memory of the host.
    #[getter]
    fn gpus(&self) -> Vec<i64> {
        self.devices_by_kind().1
    }

    /// The device that is the process's heap, which `memreel record --heap` records.
    #[getter]
    fn heap(&self) -> Option<i64> {
        self.0.snapshot.usage().iter().find(|of| of.is_heap()).map(|of| of.device.0)
    }

    /// Writes the snapshot as a pickle: the whole file, or nothing.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let saved = py.detach(|| pickle::save(&*self.0.snapshot, &path));
        saved.map_err(|error| exception(py, Refusal { status: 3, message: error.to_string() }))
    }

    /// A row for each event.
    fn events(&self, py: Python<'_>) -> Table {
        let snapshot = self.0.snapshot.clone();
        py.detach(|| Table::new(Events::new(snapshot)))
    }

    /// A row for each block at the end.
    fn blocks(&self) -> Table {
        Table::new(Blocks(self.0.snapshot.clone()))
    }

    /// A row for each segment at the end.
    fn segments(&self) -> Table {
        Table::new(Segments(self.0.snapshot.clone()))
    }

    /// A row for each frame of each stack.
    fn stacks(&self, py: Python<'_>) -> Table {
        let snapshot = self.0.snapshot.clone();
        py.detach(|| Table::new(Stacks::new(snapshot)))
    }
}

impl Opened {
    /// Returns the devices that are reported as host memory, and the others.
    fn devices_by_kind(&self) -> (Vec<i64>, Vec<i64>) {
        let is_host = |device: &DeviceId| {
            let usage = self.0.snapshot.usage();
            *device == DeviceId::HOST || usage.iter().any(|of| of.device == *device && of.is_host())
        };
        let numbers = |devices: Vec<DeviceId>| devices.into_iter().map(|device| device.0).collect();
        let (host, others) = analysis::devices(&self.0.snapshot).into_iter().partition(is_host);
        (numbers(host), numbers(others))
    }
}

/// Runs a command of the program on snapshots, each under a name that stands for its file in the words. Returns the exit
/// status and the text.
#[pyfunction]
pub(crate) fn ask(
    py: Python<'_>,
    snapshots: Vec<(String, Py<Opened>)>,
    words: Vec<String>,
) -> PyResult<(u8, String)> {
    let named: Vec<NamedSnapshot> = snapshots
        .into_iter()
        .map(|(name, opened)| NamedSnapshot { name, snapshot: Arc::clone(&opened.borrow(py).0.snapshot) })
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let answer = py.detach(|| memreel_cli::ask(&named, &words));
    answer.map(|answer| (answer.status, answer.text)).map_err(|refusal| exception(py, refusal))
}

/// Joins PyTorch's blocks with the segments of the driver's recording of the same process.
#[pyfunction]
pub(crate) fn join_torch(py: Python<'_>, driver: &Opened, torch: &Opened) -> PyResult<Opened> {
    let joined =
        py.detach(|| merge_torch(Snapshot::clone(&driver.0.snapshot), Snapshot::clone(&torch.0.snapshot)));
    match joined {
        Ok(joined) => Ok(Opened(NamedSnapshot { name: driver.0.name.clone(), snapshot: Arc::new(joined) })),
        Err(error) => Err(exception(py, Refusal { status: 3, message: error.to_string() })),
    }
}
