//! JSON objects.

#![forbid(unsafe_code)]

use serde_json::Value;

/// Returns an object with the pairs of both; `other`'s come last.
pub(crate) fn joined(mut object: Value, other: Value) -> Value {
    if let (Value::Object(into), Value::Object(other)) = (&mut object, other) {
        into.extend(other);
    }
    object
}
