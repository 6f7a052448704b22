//! Arrow columns: builds them from a snapshot's records, and converts them to Python lists.

#![forbid(unsafe_code)]

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, UInt32Array, UInt64Array, types::UInt32Type,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pyo3::{Bound, IntoPyObject, PyAny, PyResult, Python, exceptions::PyTypeError};

/// Returns a column for a few distinct texts: each is in the column once.
pub(crate) fn few_texts() -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8))
}

/// Returns a schema of columns with names and types. All may have nulls.
pub(crate) fn schema(columns: &[(&str, DataType)]) -> Schema {
    Schema::new(columns.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true)).collect::<Vec<_>>())
}

/// The columns as rows.
pub(crate) fn batch(schema: &Arc<Schema>, columns: Vec<ArrayRef>) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_new(schema.clone(), columns)
}

/// Texts by their numbers in `texts`.
pub(crate) fn coded(
    numbers: impl Iterator<Item = Option<u32>>,
    texts: &Arc<StringArray>,
) -> Result<ArrayRef, ArrowError> {
    let numbers: UInt32Array = numbers.collect();
    Ok(Arc::new(DictionaryArray::<UInt32Type>::try_new(numbers, texts.clone())?))
}

/// The values of a column as a list of Python.
pub(crate) fn values<'py>(py: Python<'py>, column: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    let any = column.as_any();
    if let Some(column) = any.downcast_ref::<UInt64Array>() {
        list(py, column.iter().collect())
    } else if let Some(column) = any.downcast_ref::<Int64Array>() {
        list(py, column.iter().collect())
    } else if let Some(column) = any.downcast_ref::<UInt32Array>() {
        list(py, column.iter().collect())
    } else if let Some(column) = any.downcast_ref::<Int32Array>() {
        list(py, column.iter().collect())
    } else if let Some(column) = any.downcast_ref::<BooleanArray>() {
        list(py, column.iter().collect())
    } else if let Some(column) = any.downcast_ref::<Float64Array>() {
        list(py, column.iter().collect())
    } else if let Some(column) = any.downcast_ref::<StringArray>() {
        list(py, column.iter().collect())
    } else if let Some(column) = any.downcast_ref::<DictionaryArray<UInt32Type>>() {
        let texts = column.downcast_dict::<StringArray>();
        list(py, texts.map(|texts| texts.into_iter().collect()).unwrap_or_default())
    } else {
        Err(PyTypeError::new_err(format!("a column of {} has no list", column.data_type())))
    }
}

fn list<'py, T>(py: Python<'py>, values: Vec<Option<T>>) -> PyResult<Bound<'py, PyAny>>
where
    Option<T>: IntoPyObject<'py>,
{
    values.into_pyobject(py).map(Bound::into_any)
}
