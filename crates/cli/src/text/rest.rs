//! The rest of a list of which the first are printed.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{bytes::Bytes, page::Page, percent};

/// Returns the number and the bytes of the results after the first `n`, for JSON.
pub(crate) fn rest<T>(all: &[T], n: usize, bytes: impl Fn(&T) -> u64) -> Value {
    let (count, bytes) = sum(all, n, bytes);
    json!({"rest": {"count": count, "bytes": bytes}})
}

/// Prints the share, the bytes and the number of the results after the first `n`, if there are any.
pub(crate) fn print_rest<T>(
    all: &[T],
    n: usize,
    of_bytes: u64,
    bytes: impl Fn(&T) -> u64,
    out: &mut Page,
) -> io::Result<()> {
    match sum(all, n, bytes) {
        (0, _) => Ok(()),
        (count, bytes) => {
            let share = percent(bytes, of_bytes);
            writeln!(
                out,
                "{share} {:>11}         in {count} more; use -n to show more",
                Bytes(bytes).to_string()
            )
        }
    }
}

fn sum<T>(all: &[T], n: usize, bytes: impl Fn(&T) -> u64) -> (usize, u64) {
    let rest = all.get(n..).unwrap_or_default();
    (rest.len(), rest.iter().map(bytes).fold(0, u64::saturating_add))
}
