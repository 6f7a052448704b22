//! The rest of a list of which the first are printed.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel_snapshot::analysis::Rest;

use super::{bytes::Bytes, page::Page, percent};

/// Returns the number and the bytes of the results after the first `n`.
pub(crate) fn rest<T>(all: &[T], n: usize, bytes: impl Fn(&T) -> u64) -> Rest {
    Rest::of(all.get(n..).unwrap_or_default(), bytes)
}

/// Prints the share, the bytes and the number of the results that are not listed, if there are any.
pub(crate) fn print_rest(rest: Rest, of_bytes: u64, out: &mut Page) -> io::Result<()> {
    if rest.count == 0 {
        return Ok(());
    }
    let (share, bytes) = (percent(rest.bytes, of_bytes), Bytes(rest.bytes).to_string());
    writeln!(out, "{share} {bytes:>11}         in {} more; use -n to show more", rest.count)
}
