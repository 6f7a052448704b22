//! Prints memory by stream: what each keeps, and streams that keep memory for nothing.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel_snapshot::analysis::{SiteFinding, StreamUse};

use super::{fit::print_text, labels::stream, page::Page, segment_rows::print_sums, sites::Sites};

/// Prints what the segments of each stream hold, if there are several.
pub(crate) fn print_streams(
    uses: &[StreamUse],
    n: usize,
    sites: &Sites<'_>,
    out: &mut Page,
) -> io::Result<()> {
    if uses.len() < 2 {
        return Ok(());
    }
    let sums: Vec<_> = uses.iter().map(|of| (stream(of.stream), &of.sum)).collect();
    writeln!(out)?;
    print_sums("stream", &sums, n, sites, out)
}

/// Prints findings about calls, each with what to do.
pub(crate) fn print_findings<'f, F: SiteFinding + 'f>(
    found: impl IntoIterator<Item = &'f F>,
    sites: &Sites<'_>,
    out: &mut Page,
) -> io::Result<()> {
    found.into_iter().try_for_each(|found| print_text(finding(found, "", sites), out))
}

/// Returns a finding about a call, with more words, and what to do.
pub(crate) fn finding(found: &impl SiteFinding, more: &str, sites: &Sites<'_>) -> String {
    let by = found.site().map_or_else(String::new, |site| sites.plain(site));
    let advice = found.advice().map_or_else(String::new, |advice| format!(": {advice}"));
    format!("{}{more}{advice}", found.finding(&by))
}
