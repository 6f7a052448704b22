//! `Table`: rows that other libraries read as an Arrow stream.

#![forbid(unsafe_code)]

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchReader, StringArray,
    UInt64Array, ffi::FFI_ArrowSchema, ffi_stream::FFI_ArrowArrayStream,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::{
    Bound, PyAny, PyResult, Python,
    exceptions::{PyTypeError, PyValueError},
    pyclass, pyfunction, pymethods,
    types::{PyAnyMethods, PyBool, PyCapsule, PyDict, PyDictMethods, PyFloat, PyInt, PyList, PyString},
};

use crate::columns::values;

/// Creates the rows of a table batch by batch, so that a table of any length takes the memory of a batch.
pub(crate) trait Rows: Send + Sync {
    /// The names and types of the columns.
    fn schema(&self) -> SchemaRef;
    /// The number of rows.
    fn n_rows(&self) -> usize;
    /// Returns `n` rows from `start` on.
    fn batch(&self, start: usize, n: usize) -> Result<RecordBatch, ArrowError>;
}

/// The rows of a batch: so many that the cost per batch does not matter.
const BATCH_ROWS: usize = 1 << 16;

/// A table, which pyarrow, polars, duckdb and pandas take through the Arrow PyCapsule interface.
#[pyclass(frozen, module = "memreel._memreel")]
pub(crate) struct Table(Arc<dyn Rows>);

impl Table {
    pub(crate) fn new(rows: impl Rows + 'static) -> Table {
        Table(Arc::new(rows))
    }
}

#[pymethods]
impl Table {
    /// The number of rows.
    fn __len__(&self) -> usize {
        self.0.n_rows()
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The columns of the rows `start` to `stop` as lists, by name.
    fn columns<'py>(&self, py: Python<'py>, start: usize, stop: usize) -> PyResult<Bound<'py, PyDict>> {
        let stop = stop.min(self.0.n_rows());
        let start = start.min(stop);
        let batch = py.detach(|| self.0.batch(start, stop - start)).map_err(failed)?;
        let columns = PyDict::new(py);
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            columns.set_item(field.name(), values(py, column)?)?;
        }
        Ok(columns)
    }

    /// Returns the schema, in the form of the Arrow PyCapsule interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.schema().as_ref()).map_err(failed)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The rows as a stream of batches, as the Arrow PyCapsule interface has it. The rows have the types of this table, whatever
    /// was requested, which the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let reader = Reader { rows: self.0.clone(), next: 0 };
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
    }
}

fn failed(error: ArrowError) -> pyo3::PyErr {
    PyValueError::new_err(error.to_string())
}

/// Reads the batches of a table one by one.
struct Reader {
    rows: Arc<dyn Rows>,
    next: usize,
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let n = BATCH_ROWS.min(self.rows.n_rows() - self.next);
        let start = self.next;
        self.next += n;
        (n > 0).then(|| self.rows.batch(start, n))
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

/// Rows that Python gave.
struct Given(RecordBatch);

impl Rows for Given {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn n_rows(&self) -> usize {
        self.0.num_rows()
    }

    fn batch(&self, start: usize, n: usize) -> Result<RecordBatch, ArrowError> {
        Ok(self.0.slice(start, n))
    }
}

/// Creates a table from lists by name. A column has the type of its values: int, float, bool or str, or None.
#[pyfunction]
pub(crate) fn table(columns: &Bound<'_, PyDict>) -> PyResult<Table> {
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for (name, values) in columns.iter() {
        let array = array(values.cast::<PyList>()?)?;
        fields.push(Field::new(name.extract::<String>()?, array.data_type().clone(), true));
        arrays.push(array);
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(failed)?;
    Ok(Table::new(Given(batch)))
}

fn array(values: &Bound<'_, PyList>) -> PyResult<ArrayRef> {
    let first = values.try_iter()?.filter_map(Result::ok).find(|value| !value.is_none());
    let Some(first) = first else { return Ok(arrow_array::new_null_array(&DataType::Utf8, values.len()?)) };
    // In Python, a bool is also an int.
    Ok(if first.is_instance_of::<PyBool>() {
        Arc::new(BooleanArray::from(values.extract::<Vec<Option<bool>>>()?))
    } else if first.is_instance_of::<PyInt>() {
        match values.extract::<Vec<Option<i64>>>() {
            Ok(numbers) => Arc::new(Int64Array::from(numbers)),
            Err(_) => Arc::new(UInt64Array::from(values.extract::<Vec<Option<u64>>>()?)),
        }
    } else if first.is_instance_of::<PyFloat>() {
        Arc::new(Float64Array::from(values.extract::<Vec<Option<f64>>>()?))
    } else if first.is_instance_of::<PyString>() {
        Arc::new(StringArray::from(values.extract::<Vec<Option<String>>>()?))
    } else {
        let kind = first.get_type();
        return Err(PyTypeError::new_err(format!(
            "a column cannot hold {kind}; use int, float, bool or str"
        )));
    })
}
