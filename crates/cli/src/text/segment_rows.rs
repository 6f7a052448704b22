//! Rows of segments that share a stream or a pool.

#![forbid(unsafe_code)]

use std::io;

use memreel_snapshot::analysis::SegmentSum;

use super::{bytes::Bytes, fit::print_text, page::Page, sites::Sites, table::Table};

/// Prints a row for each of at most `n` sums, under the heading `what` for their names.
pub(crate) fn print_sums(
    what: &str,
    sums: &[(String, &SegmentSum)],
    n: usize,
    sites: &Sites<'_>,
    out: &mut Page,
) -> io::Result<()> {
    let mut table = Table::new(&[what, "reserved", "in blocks", "free", "empty", "segments"]);
    let (listed, rest) = sums.split_at(sums.len().min(n));
    for (name, sum) in listed {
        let bytes = [sum.reserved_bytes, sum.block_bytes, sum.free_bytes, sum.empty_bytes];
        let bytes = bytes.map(|bytes| Bytes(bytes).to_string());
        table.row([&[name.clone()][..], &bytes, &[sum.n_segments.to_string()]].concat());
        table.note(format!("allocated by {}", sites.plain(&sum.site)));
    }
    table.print(out)?;
    if rest.is_empty() {
        return Ok(());
    }
    let free = rest.iter().map(|(_, sum)| sum.free_bytes).fold(0, u64::saturating_add);
    print_text(format!("and {} more with {} free", rest.len(), Bytes(free)), out)
}
