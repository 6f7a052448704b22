//! `memreel oom`: why a request ran out of memory.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::Path,
};

use memreel::{
    analysis::{By, DeviceHistory, OomReport, Site, Verdict},
    snapshot::Value as Setting,
};
use serde_json::{Value, json};

use crate::{
    bytes::Bytes,
    colour::red,
    each::{Asked, each_history},
    exit::Exit,
    failure::Failure,
    input::{Opened, name},
    json::print_line,
    moment,
    options::{Input, Listing},
    sites::Sites,
    text::count,
    warnings::print_warnings,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Explains the last request that failed. `free here` is free memory that its stream and pool could have used.
`fits compacted` is exact. `with expandable segments` is exact if it is yes or no; if it is perhaps, ask
`memreel replay --conf expandable_segments:True --limit BYTES`.

Example:
  memreel oom snapshot.pickle

Exit status: 0 no request failed, 1 one failed, 2 wrong usage, 3 a file that cannot be read or is not a
snapshot.")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    listing: Listing,
}

pub(crate) fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    each_history(&options.input, out, |asked, out| {
        let history = &asked.history;
        let Some(report) = history.oom() else {
            if options.input.json {
                print_line(&asked.opened.name, history.device(), &json!({"oom": null}), out)?;
            } else {
                writeln!(out, "no request failed{}", why_none(history))?;
            }
            return Ok(Exit::Fine);
        };
        let sites = Sites::new(&asked.opened.snapshot, options.listing.frames);
        if options.input.json {
            asked.print_json(&object(options, history, &report, &sites), out)?;
        } else {
            print(options, asked, &report, &sites, out)?;
        }
        Ok(Exit::Broken)
    })
}

fn why_none(history: &DeviceHistory<'_>) -> &'static str {
    if history.entries().is_empty() {
        ": the file has no history (was recording on?); `memreel top` shows what is held"
    } else {
        " in the recorded history"
    }
}

fn explained(report: &OomReport) -> String {
    let request = Bytes(report.requested_bytes);
    match report.verdict {
        Verdict::Fragmented if report.largest_free_bytes >= report.requested_bytes => format!(
            "a piece of {} was free and not used: max_split_size_mb keeps large blocks whole, or blocks were larger \
             than the history shows",
            Bytes(report.largest_free_bytes),
        ),
        Verdict::Fragmented => format!(
            "{} are free in segments that could serve it, but no piece of {request}",
            Bytes(report.free_here_bytes),
        ),
        Verdict::Elsewhere => format!(
            "{} are free, but cached for other streams, the other kind of pool or private pools",
            Bytes(report.free_elsewhere_bytes),
        ),
        Verdict::Limited => format!(
            "this process reached its memory limit; {} are free in its segments",
            Bytes(report.all_free_bytes())
        ),
        _ => format!(
            "all free memory, {}, is less than {request}: free live blocks, or provide {} more memory",
            Bytes(report.all_free_bytes()),
            Bytes(report.requested_bytes.saturating_sub(report.all_free_bytes())),
        ),
    }
}

fn advice(report: &OomReport, opened: &Opened) -> Option<String> {
    let setting =
        opened.snapshot.allocator_settings().and_then(|settings| settings.get("expandable_segments"));
    let is_expandable = matches!(setting, Some(Setting::Bool(true)));
    let limit = report.could_hold_bytes();
    match report.verdict {
        Verdict::Fragmented | Verdict::Elsewhere if !is_expandable && opened.name != name(Path::new("-")) => {
            Some(format!("try: memreel replay --sweep --limit {limit} {}", opened.name))
        }
        _ => None,
    }
}

fn print(
    options: &Options,
    asked: &Asked<'_>,
    report: &OomReport,
    sites: &Sites<'_>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let history = &asked.history;
    let red = red();
    let words = report.verdict.name();
    writeln!(
        out,
        "{red}out of memory, {words}{red:#}: {} asked for {}",
        Bytes(report.requested_bytes),
        moment::words(history, report.totals.moment),
    )?;
    writeln!(out, "{}", explained(report))?;
    if report.is_limited() {
        writeln!(
            out,
            "the device had {} free and still refused: this process is limited (set_per_process_memory_fraction?)",
            Bytes(report.device_free_bytes),
        )?;
    }
    if report.n_ooms > 1 {
        writeln!(out, "it is the last of {} failed requests", report.n_ooms)?;
    }
    print_warnings(history, out)?;
    if let Some(stack) = report.stack {
        writeln!(out, "\n{}", sites.row("asked by", &Site::Stack(stack)))?;
    }
    writeln!(out)?;
    figures(report, out)?;
    let groups = history.top(report.totals.moment, By::Stack);
    writeln!(
        out,
        "\nthe biggest of {}, {}:\n{}",
        count(report.totals.n_blocks, "live block"),
        Bytes(report.totals.active_bytes),
        Sites::heading()
    )?;
    sites.print_groups(&groups[..groups.len().min(options.listing.n)], report.totals.active_bytes, out)?;
    if let Some(advice) = advice(report, asked.opened) {
        writeln!(out, "\n{advice}")?;
    }
    Ok(())
}

fn figures(report: &OomReport, out: &mut impl Write) -> io::Result<()> {
    let yes = |fits: bool, no: &'static str| if fits { "yes" } else { no };
    let rows = [
        ("requested", Bytes(report.requested_bytes).to_string()),
        ("as a segment", Bytes(report.segment_bytes).to_string()),
        ("free on the device", Bytes(report.device_free_bytes).to_string()),
        ("reserved", Bytes(report.totals.reserved_bytes).to_string()),
        ("live", Bytes(report.totals.active_bytes).to_string()),
        (
            "free here",
            format!(
                "{}, at most {} in one piece",
                Bytes(report.free_here_bytes),
                Bytes(report.largest_free_bytes)
            ),
        ),
        ("free elsewhere", Bytes(report.free_elsewhere_bytes).to_string()),
        ("fits compacted", yes(report.fits_compacted(), "no").to_owned()),
        (
            "with expandable segments",
            yes(report.fits_expandable(), if report.fits_compacted() { "perhaps" } else { "no" }).to_owned(),
        ),
    ];
    for (name, value) in rows {
        writeln!(out, "  {name:24}  {value}")?;
    }
    if !report.is_last {
        writeln!(out, "  blocks were allocated and freed afterwards, so the free figures are upper bounds")?;
    }
    Ok(())
}

fn object(options: &Options, history: &DeviceHistory<'_>, report: &OomReport, sites: &Sites<'_>) -> Value {
    let groups = history.top(report.totals.moment, By::Stack);
    json!({
        "oom": {
            "event": report.entry,
            "verdict": report.verdict,
            "is_limited": report.is_limited(),
            "why": explained(report),
            "n_ooms": report.n_ooms,
            "requested_bytes": report.requested_bytes,
            "segment_bytes": report.segment_bytes,
            "device_free_bytes": report.device_free_bytes,
            "reserved_bytes": report.totals.reserved_bytes,
            "allocated_bytes": report.totals.allocated_bytes,
            "active_bytes": report.totals.active_bytes,
            "free_here_bytes": report.free_here_bytes,
            "largest_free_bytes": report.largest_free_bytes,
            "free_elsewhere_bytes": report.free_elsewhere_bytes,
            "free_pages_bytes": report.free_pages_bytes,
            "fits_compacted": report.fits_compacted(),
            "fits_expandable": report.fits_expandable(),
            "is_last": report.is_last,
            "stack": report.stack.map(|stack| sites.all_frames(stack)),
        },
        "live": sites.first_with_frames(&groups, options.listing.n),
        "is_exact": history.trust().is_exact(),
    })
}
