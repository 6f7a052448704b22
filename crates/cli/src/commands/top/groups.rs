//! The groups of `memreel top`.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel_snapshot::analysis::{DeviceHistory, Group, Site, SiteList};

use super::options::{Grouping, Options};
use crate::text::{
    Bytes, Page, Sites, percent, print_text,
    rest::print_rest,
    sites::{figures, heading, owner_heading, print_rows},
};

/// The prefix of a peak that is only an upper bound.
const AT_MOST: &str = "≤ ";

/// Prints the groups with their heading, the rest of the list, and notes about what they lack.
pub(super) fn print_groups(
    options: &Options,
    history: &DeviceHistory<'_>,
    list: &SiteList<'_, Group>,
    all_bytes: u64,
    out: &mut Page,
) -> io::Result<()> {
    let (groups, listed) = (list.all(), list.listed());
    let sites = &Sites::new(history, options.listing.calls());
    let has_totals = matches!(options.by, Grouping::Function | Grouping::File | Grouping::Line);
    if !groups.is_empty() {
        let of_callees = format!("{} {:>12}", figures("share", "own bytes", "blocks"), "with callees");
        let heading = match options.by {
            Grouping::Stack if groups[0].peak_bytes.is_some() => {
                let figures = format!("{} {:>11}", figures("share", "bytes", "blocks"), "peak");
                heading(&figures, "allocated by ← called by", out)
            }
            Grouping::Stack => Sites::heading(out),
            Grouping::Scope => heading(&figures("share", "bytes", "blocks"), "scope", out),
            Grouping::Name => heading(&figures("share", "bytes", "blocks"), "name", out),
            Grouping::Owner => owner_heading(out),
            Grouping::Function => heading(&of_callees, "function", out),
            Grouping::File => heading(&of_callees, "file", out),
            Grouping::Line => heading(&of_callees, "line", out),
            Grouping::Stream => heading(&figures("share", "bytes", "blocks"), "stream", out),
            Grouping::Pool => heading(&figures("share", "bytes", "blocks"), "pool", out),
        };
        writeln!(out, "{heading}")?;
    }
    if has_totals {
        print_rows(listed.iter().map(|group| (with_total(group, all_bytes), sites, &group.site)), out)?;
    } else if groups.first().is_some_and(|group| group.peak_bytes.is_some()) {
        print_rows(listed.iter().map(|group| (with_peak(group, all_bytes), sites, &group.site)), out)?;
    } else {
        sites.print_groups(listed, all_bytes, out)?;
    }
    print_rest(list.rest(|group| group.bytes), all_bytes, out)?;
    if listed.iter().any(|group| group.peak_is_at_most == Some(true)) {
        let text =
            "note: ≤ means at most, because several stacks are one site, and their peaks may not coincide";
        print_text(text, out)?;
    }
    let has_sites =
        groups.iter().any(|group| !matches!(group.site, Site::Size(_) | Site::NoStack | Site::NoFile));
    if !groups.is_empty() && !has_sites && history.snapshot().stacks.is_empty() {
        print_text("note: no stacks were recorded; record with context=\"all\" to see what allocates", out)?;
    }
    if has_sites && groups.iter().any(|group| matches!(group.site, Site::Size(_))) {
        let trust = history.trust();
        let note = match (trust.names_the_rest, trust.lacks_in_backward) {
            (true, _) => {
                "note: what was allocated before the recording has no stack: start recording before the \
                 model is built"
            }
            (_, true) => {
                "note: the backward pass runs in threads without Python; to see their calls, record with \
                 stacks=\"all\", or try --by scope"
            }
            _ => {
                "note: (no stack) is memory from before the recording, or of a thread without Python such as PyTorch's \
                 backward thread: record with stacks=\"all\", or try --by scope"
            }
        };
        print_text(note, out)?;
    }
    Ok(())
}

fn with_peak(group: &Group, all_bytes: u64) -> String {
    let all = figures(percent(group.bytes, all_bytes), Bytes(group.bytes), group.n_blocks);
    let at_most = if group.peak_is_at_most == Some(true) { AT_MOST } else { "" };
    let peak = group.peak_bytes.map_or_else(String::new, |peak| format!("{at_most}{}", Bytes(peak)));
    format!("{all} {peak:>11}")
}

fn with_total(group: &Group, all_bytes: u64) -> String {
    let own = figures(percent(group.bytes, all_bytes), Bytes(group.bytes), group.n_blocks);
    format!("{own} {:>12}", Bytes(group.total_bytes).to_string())
}
