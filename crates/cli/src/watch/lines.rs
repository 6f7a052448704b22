//! The figures of a device as text: a line for each second, or some lines once.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use crate::{
    run::figures::{Figures, Oom, SiteBytes},
    text::{Bytes, Page, bytes::signed, clean, count, print_text},
};

/// Returns which process and device it is.
pub(super) fn who(figures: &Figures) -> String {
    let rank = figures.rank.as_ref().map_or_else(String::new, |rank| format!(" rank {}", clean(rank)));
    let name = if figures.name.is_empty() { String::new() } else { format!(" ({})", figures.name) };
    format!("process {}{rank} device {}{name}", figures.process, figures.device)
}

/// Returns how much is used, of how much.
pub(super) fn used(figures: &Figures) -> String {
    let limit = figures.limit_bytes.map_or_else(String::new, |limit| format!(" of {}", Bytes(limit)));
    let live = Bytes(figures.live_bytes);
    match figures.used_bytes {
        Some(used) => format!("used {}{limit}, live {live}", Bytes(used)),
        None if figures.reserved_bytes > 0 => {
            format!("reserved {}, live {live}", Bytes(figures.reserved_bytes))
        }
        None => format!("live {live}"),
    }
}

pub(super) fn oom(oom: &Oom) -> String {
    let bytes = oom.requested_bytes.map_or_else(String::new, |bytes| format!(" for {}", Bytes(bytes)));
    let why = oom.why.as_ref().map_or_else(String::new, |why| format!(": {}", clean(why)));
    format!("{}, the latest{bytes}{why}", count(oom.n_ooms, "failed request"))
}

/// Returns a line for this second.
pub(super) fn line(figures: &Figures) -> String {
    let grown = figures
        .grown_since_begin
        .first()
        .map_or_else(String::new, |site| format!(", grew most {} {}", signed(site.bytes.into()), site.text));
    let failed = figures.oom.as_ref().map_or_else(String::new, |failed| format!(", {}", oom(failed)));
    let ended = if figures.is_running { "" } else { ", ended" };
    let rate = figures.allocations_per_s;
    format!("{}: {}, {rate} allocations/s{grown}{failed}{ended}", who(figures), used(figures))
}

/// Prints all figures.
pub(super) fn print(figures: &Figures, out: &mut Page) -> io::Result<()> {
    let ended = if figures.is_running { "" } else { ", ended" };
    writeln!(out, "{}{ended}", who(figures))?;
    let (peak, blocks) = (Bytes(figures.live_peak_bytes), figures.n_live);
    print_text(format!("  {}, at most {peak} live; {}", used(figures), count(blocks, "block")), out)?;
    let (rate, bytes) = (figures.allocations_per_s, Bytes(figures.allocated_bytes_per_s));
    print_text(format!("  {rate} allocations per second, {bytes} per second"), out)?;
    if !figures.owners.is_empty() {
        writeln!(out, "  owners")?;
        for row in &figures.owners {
            writeln!(out, "  {:>11}  {}", signed(row.bytes.into()), clean(&row.owner))?;
        }
    }
    for (heading, sites) in lists(figures) {
        if !sites.is_empty() {
            writeln!(out, "  {heading}")?;
        }
        for site in sites {
            print_text(format!("  {:>11}  {}", signed(site.bytes.into()), site.text), out)?;
        }
    }
    figures.oom.iter().try_for_each(|failed| print_text(format!("  {}", oom(failed)), out))?;
    figures.problems.iter().try_for_each(|problem| print_text(format!("  {}", clean(problem)), out))
}

/// Returns the lists of sites with their headings.
pub(super) fn lists(figures: &Figures) -> [(String, &[SiteBytes]); 3] {
    let seconds = figures.watched_us / 1_000_000;
    [
        ("hold most".into(), &figures.holders),
        (format!("grew most in {} s", seconds.min(60)), &figures.grown_in_a_minute),
        (format!("grew most since the watch started, {seconds} s"), &figures.grown_since_begin),
    ]
}
