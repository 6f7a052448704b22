//! The rest of a list of which the first are printed, for JSON.

#![forbid(unsafe_code)]

use serde_json::{Value, json};

/// Returns the number and the bytes of the results behind the first `n`.
pub(crate) fn rest<T>(all: &[T], n: usize, bytes: impl Fn(&T) -> u64) -> Value {
    let rest = all.get(n..).unwrap_or_default();
    json!({"count": rest.len(), "bytes": rest.iter().map(bytes).fold(0, u64::saturating_add)})
}
