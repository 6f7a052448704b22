//! The error of an address that cannot be read.

use datafusion::error::DataFusionError;

/// An error in what the user asked for.
pub(crate) fn usage(message: String) -> DataFusionError {
    DataFusionError::Configuration(message)
}
