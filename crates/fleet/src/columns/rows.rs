//! What every table does for a file: it hands rows to a sink, and makes columns of those that the sink keeps.

use datafusion::arrow::array::ArrayRef;

/// The rows of one table in one file.
pub(crate) trait Rows {
    /// A row, before its columns are made.
    type Row: Clone;

    /// Returns the column with this name, of these rows.
    fn column(&self, name: &str, rows: &[Self::Row]) -> ArrayRef;
}
