//! `memreel oom`: why a request ran out of memory.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::Path,
};

use memreel::{
    analysis::{DeviceHistory, Group, MarkedFrame, OomReport, Site, Verdict, WithFrames},
    whatif::{Fit, Requests, Room},
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    bytes::{Bytes, exact},
    colour::red,
    each::{Asked, each_history},
    exit::Exit,
    failure::Failure,
    fit::{command, print_text, wrapped},
    input::{Opened, name},
    json::print_line,
    moment,
    options::{Input, Listing},
    rest::{print_rest, rest},
    sites::Sites,
    text::{count, shell_word},
    warnings::print_warnings,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Explains the last request that failed. `as a segment` is what the allocator has
to take from the device for it. `free here` is free memory that its stream and
pool could have used, `free elsewhere` is that of others. `fits compacted`:
would the request fit if all of `free here` and of `free on the device` were in
one piece? `pending` is freed memory that waits for a stream. `with expandable
segments` is the answer of a replay of the history up to the request: yes or no
only if the history is whole and every order of addresses agrees, otherwise
perhaps; `memreel replay --conf expandable_segments:True --limit BYTES` has the
figures. In --json this answer is `with_expandable_segments`; `fits_expandable`
is null if it is not known.

The reason, in --json `verdict`, is the first of these that is true:
  free and not used  a piece was large enough: max_split_size_mb, or a private
                     pool that is not in the file
  fragmented         enough was free here, or with what the device had free, but
                     in pieces
  rounded up         enough was free with what the device had free, but not for
                     the segment that is needed
  free elsewhere     enough was free, some of it for other streams, the other
                     kind of pool or other pools
  pending            enough was free or waited for a stream
  limited            the device had enough free: a limit on the process
  full               all free memory together is less than the request

Example:
  memreel oom snapshot.pickle

Exit status: 0 no request failed, 1 one failed, 2 wrong usage, 3 a file that
cannot be read or is not a snapshot.")]
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
                print_text(format!("no request failed{}", why_none(history)), out)?;
                if !history.entries().is_empty() {
                    print_warnings(history, out)?;
                }
            }
            return Ok(Exit::Fine);
        };
        let sites = Sites::new(&asked.history, options.listing.frames);
        if options.input.json {
            print_object(options, asked, &report, &sites, out)?;
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

/// Prints that a request failed, and the reason.
pub(super) fn print_why(
    history: &DeviceHistory<'_>,
    report: &OomReport,
    out: &mut impl Write,
) -> io::Result<()> {
    let red = red();
    let text = format!(
        "{red}out of memory, {}{red:#}: {} asked for {}",
        report.verdict.name(),
        Bytes(report.requested_bytes),
        moment::words(history, report.totals.moment),
    );
    print_text(text, out)?;
    print_text(explained(report), out)?;
    if report.is_limited() {
        let text = format!(
            "the device had {} free and still refused: this process is limited (set_per_process_memory_fraction?)",
            Bytes(report.device_free_bytes),
        );
        print_text(text, out)?;
    }
    Ok(())
}

pub(super) fn explained(report: &OomReport) -> String {
    let request = Bytes(report.requested_bytes);
    let (here, all) = (Bytes(report.free_here_bytes), Bytes(report.all_free_bytes()));
    let device = Bytes(report.device_free_bytes);
    match report.verdict {
        Verdict::Unused => {
            format!(
                "a piece of {} was free and not used: {}",
                Bytes(report.largest_free_bytes),
                why_unused(report)
            )
        }
        Verdict::Fragmented if report.free_here_bytes >= report.requested_bytes => {
            format!("{here} are free in segments that could serve it, but no piece of {request}")
        }
        Verdict::Fragmented => format!(
            "{here} are free in segments that could serve it and {device} on the device, but no piece of {request}"
        ),
        Verdict::RoundedUp => {
            let segment = Bytes(report.segment_bytes);
            let what = if report.is_expandable { "pages of" } else { "a segment of" };
            let free = if report.free_here_bytes > 0 {
                format!(" and {here} in segments that could serve it")
            } else {
                String::new()
            };
            format!("the device has {device} free{free}, but {request} need {what} {segment}")
        }
        Verdict::Elsewhere => format!(
            "{all} are free, but {} of them for other streams, the other kind of pool or other pools",
            Bytes(report.free_elsewhere_bytes),
        ),
        Verdict::Pending => format!(
            "{all} are free, and {} are freed and wait for a stream (record_stream): synchronise it before the request",
            Bytes(report.pending_bytes),
        ),
        Verdict::Limited => format!("this process reached its memory limit; {all} are free in its segments"),
        _ => {
            let more = report.requested_bytes.saturating_sub(report.all_free_bytes());
            let more = Bytes(more.saturating_sub(report.pending_bytes));
            format!(
                "all free memory, {all}, is less than {request}: free live blocks, or provide {more} more memory"
            )
        }
    }
}

/// Returns what can have kept a piece that was large enough from being used.
fn why_unused(report: &OomReport) -> String {
    let mut reasons = Vec::new();
    if report.pool.is_none() {
        reasons.push("the request was for a private pool (files before PyTorch 2.12 do not name it)");
    }
    if report.has_max_split != Some(false) {
        reasons.push("max_split_size_mb keeps large blocks whole");
    }
    if !report.is_last {
        reasons.push("blocks were larger than the history shows");
    }
    if reasons.is_empty() { "the file does not show why".to_owned() } else { reasons.join(", or ") }
}

/// Returns the bytes that the process could hold when the request failed.
fn room(report: &OomReport) -> Room {
    if report.is_limited() {
        Room::Limit(report.could_hold_bytes()..=report.could_hold_at_most_bytes())
    } else {
        Room::Device(report.could_hold_bytes())
    }
}

/// Returns whether the request would have been served with expandable segments.
fn with_expandable(history: &DeviceHistory<'_>, report: &OomReport) -> Fit {
    if report.is_expandable || report.never_fits() {
        return Fit::No;
    }
    if !history.trust().is_whole() || report.pool.is_none() {
        return Fit::Perhaps;
    }
    let asked = Requests::new(history.snapshot(), history.device()).and_then(|requests| {
        let recorded = requests.recorded().usable_conf();
        let comma = if recorded.is_empty() { "" } else { "," };
        let conf = format!("{recorded}{comma}expandable_segments:True");
        requests.fit(report.entry, &conf, &room(report))
    });
    // A history that cannot be replayed shows nothing.
    asked.unwrap_or(Fit::Perhaps)
}

fn advice(report: &OomReport, opened: &Opened) -> Option<String> {
    let limit = report.could_hold_bytes();
    let is_about_layout = matches!(
        report.verdict,
        Verdict::Unused | Verdict::Fragmented | Verdict::RoundedUp | Verdict::Elsewhere
    );
    (is_about_layout && !report.is_expandable && opened.name != name(Path::new("-"))).then(|| {
        let file = shell_word(&opened.name);
        command("try: ", &["memreel", "replay", "--sweep", "--limit", &exact(limit), &file])
    })
}

fn print<W: Write>(
    options: &Options,
    asked: &Asked<'_>,
    report: &OomReport,
    sites: &Sites<'_>,
    out: &mut W,
) -> Result<(), Failure> {
    let history = &asked.history;
    print_why(history, report, out)?;
    if report.n_ooms > 1 {
        writeln!(out, "it is the last of {} failed requests", report.n_ooms)?;
    }
    print_warnings(history, out)?;
    if let Some(stack) = report.stack {
        writeln!(out, "\n{}", sites.row("asked by", &Site::Stack(stack)))?;
    }
    writeln!(out)?;
    figures(report, with_expandable(history, report), out)?;
    let (n_pending, pending_bytes) = (report.n_pending, report.pending_bytes);
    let (n_live, live_bytes) = (report.totals.n_blocks - n_pending, report.totals.allocated_bytes);
    let n_listed = options.listing.n;
    let list = |what: &str, n_blocks: usize, bytes: u64, groups: &[Group], out: &mut W| {
        writeln!(out, "\nthe biggest of {}, {}:\n{}", count(n_blocks, what), Bytes(bytes), Sites::heading())?;
        sites.print_groups(&groups[..groups.len().min(n_listed)], bytes, out)?;
        print_rest(groups, n_listed, bytes, |group| group.bytes, out)
    };
    list("live block", n_live, live_bytes, &history.held_at(report.totals.moment), out)?;
    if n_pending > 0 {
        list("pending block", n_pending, pending_bytes, &history.pending_at(report.totals.moment), out)?;
    }
    if let Some(advice) = advice(report, asked.opened) {
        writeln!(out, "\n{advice}")?;
    }
    Ok(())
}

fn figures(report: &OomReport, with_expandable: Fit, out: &mut impl Write) -> io::Result<()> {
    let segment = if report.is_expandable { "as pages" } else { "as a segment" };
    let mut rows = vec![
        ("requested", Bytes(report.requested_bytes).to_string()),
        (segment, Bytes(report.segment_bytes).to_string()),
        ("free on the device", Bytes(report.device_free_bytes).to_string()),
        ("reserved", Bytes(report.totals.reserved_bytes).to_string()),
        ("live", Bytes(report.totals.allocated_bytes).to_string()),
    ];
    if report.n_pending > 0 {
        let blocks = count(report.n_pending, "block");
        rows.push((
            "pending",
            format!("{} in {blocks}, freed and waiting for a stream", Bytes(report.pending_bytes)),
        ));
    }
    let largest = Bytes(report.largest_free_bytes);
    rows.extend([
        ("free here", format!("{}, at most {largest} in one piece", Bytes(report.free_here_bytes))),
        ("free elsewhere", Bytes(report.free_elsewhere_bytes).to_string()),
        ("fits compacted", if report.fits_compacted() { "yes" } else { "no" }.to_owned()),
        (
            "with expandable segments",
            match with_expandable {
                _ if report.is_expandable => "no; they were on".to_owned(),
                Fit::Yes => "yes: PYTORCH_ALLOC_CONF=expandable_segments:True".to_owned(),
                fit => fit.to_string(),
            },
        ),
    ]);
    for (name, value) in rows {
        writeln!(out, "{}", wrapped(&format!("  {name:24}  {value}"), 28))?;
    }
    let mut notes = Vec::new();
    if !report.is_last {
        notes.push("  blocks were allocated and freed afterwards, so the free figures are upper bounds");
    }
    if report.pool.is_none() {
        notes.push("  the file does not name the request's pool; `free here` is that of the default pool");
    }
    notes.into_iter().try_for_each(|note| print_text(note, out))
}

fn print_object(
    options: &Options,
    asked: &Asked<'_>,
    report: &OomReport,
    sites: &Sites<'_>,
    out: &mut impl Write,
) -> io::Result<()> {
    let history = &asked.history;
    let moment = report.totals.moment;
    let (held, pending) = (history.held_at(moment), history.pending_at(moment));
    let with_expandable = with_expandable(history, report);
    let head = json!({
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
            "fits_expandable": (with_expandable != Fit::Perhaps).then_some(with_expandable == Fit::Yes),
            "with_expandable_segments": with_expandable,
            "is_expandable": report.is_expandable,
            "pool_id": report.pool.map(|pool| [pool.graph, pool.user]),
            "pending_bytes": report.pending_bytes,
            "pending_blocks": report.n_pending,
            "is_last": report.is_last,
    });
    let answer = Answer {
        oom: Failed { head, stack: report.stack.map(|stack| sites.all_frames(stack)) },
        live: sites.first_with_frames(&held, options.listing.n),
        pending: sites.first_with_frames(&pending, options.listing.n),
        rest: rest(&held, options.listing.n, |group| group.bytes),
        is_exact: history.trust().is_exact(),
    };
    asked.print_json(&answer, out)
}

/// The answer about a request that failed.
#[derive(Serialize)]
struct Answer<'a> {
    oom: Failed<'a>,
    live: Vec<WithFrames<'a, Group>>,
    pending: Vec<WithFrames<'a, Group>>,
    rest: Value,
    is_exact: bool,
}

/// A request that failed.
#[derive(Serialize)]
struct Failed<'a> {
    #[serde(flatten)]
    head: Value,
    stack: Option<Vec<MarkedFrame<'a>>>,
}
