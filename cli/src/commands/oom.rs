//! `memreel oom`: why a request ran out of memory.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::Path,
};

use memreel::whatif::explain;
use memreel_snapshot::analysis::{
    DeviceHistory, Group, Site,
    oom::{CauseKind, Explanation},
};
use serde_json::json;

use crate::{
    bytes::Bytes,
    colour::red,
    each::{Asked, each_device},
    exit::Exit,
    failure::Failure,
    fit::{command, print_text, wrapped},
    input::name,
    json::print_line,
    moment,
    options::{Devices, Input, Listing},
    own_memory::is_host,
    rest::print_rest,
    sites::Sites,
    text::{clean, count, shell_word},
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
  occupied           others hold a good part of the device: other processes, or
                     this one's libraries (a file does not show it)
  full               all free memory together is less than the request
  addresses          before all others: the request was for addresses to map
                     memory at, and the process has reserved too many

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
    each_device(&options.input, out, |asked, out| {
        let history = asked.history();
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
        let explanation = explain(history, report);
        if options.input.json {
            asked.print_json(&explanation.answer(options.listing.n), out)?;
        } else {
            print(options, asked, &explanation, out)?;
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

/// Prints which request failed, and at most `n` of its causes.
pub(super) fn print_causes(
    history: &DeviceHistory<'_>,
    explanation: &Explanation<'_, '_>,
    n: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let (red, report, causes) = (red(), explanation.report(), explanation.causes());
    let step = explanation.step().map_or_else(String::new, |step| format!(" {}", clean(&step)));
    let text = format!(
        "{red}out of memory{step}, {}{red:#}: {} requested {}",
        causes[0].kind.name(),
        Bytes(report.requested_bytes),
        moment::words(history, report.totals.moment),
    );
    print_text(text, out)?;
    for (number, cause) in (1..).zip(&causes[..causes.len().min(n)]) {
        let text = format!("{number}. {}: {}", cause.kind.name(), clean(&cause.finding));
        writeln!(out, "{}", wrapped(&text, 3))?;
        if let Some(advice) = &cause.advice {
            writeln!(out, "{}", wrapped(&format!("   {}", clean(advice)), 3))?;
        }
    }
    Ok(())
}

/// Returns commands that answer what comes next: what grew, or who called for what is in use; more settings, if free memory that
/// could not be used is more than a delay; and what the other devices of the file have.
fn advice(explanation: &Explanation<'_, '_>, asked: &Asked<'_>) -> Vec<String> {
    let opened = asked.opened;
    if opened.name == name(Path::new("-")) {
        return Vec::new();
    }
    let (file, causes) = (shell_word(&opened.name), explanation.causes());
    let devices = opened.devices(Devices::All).unwrap_or_default();
    let usage = opened.snapshot.usage();
    let n_gpus = devices.iter().filter(|device| !is_host(&usage, **device)).count();
    let of_device = format!("--device {}", asked.history().device());
    let of_device = if devices.len() > 1 { vec![&*of_device] } else { Vec::new() };
    let on_device =
        |what, words: &[&str]| command(what, &[&["memreel"], words, &of_device, &[&*file]].concat());
    let is_cause = |kind| causes.iter().any(|cause| cause.kind == kind);
    let mut advice = Vec::new();
    if is_cause(CauseKind::Grew) {
        advice.push(on_device("what grew: ", &["leaks"]));
    } else if is_cause(CauseKind::Full) {
        advice.push(on_device("which calls it is below: ", &["top", "--tree"]));
    }
    if causes.iter().any(|cause| cause.conf.is_some()) {
        advice.push(on_device("more settings: ", &["replay", "--sweep"]));
    }
    if n_gpus > 1 {
        advice.push(command("beside the other devices: ", &["memreel", "ranks", &file]));
    }
    advice
}

fn print<W: Write>(
    options: &Options,
    asked: &Asked<'_>,
    explanation: &Explanation<'_, '_>,
    out: &mut W,
) -> Result<(), Failure> {
    let (history, report) = (asked.history(), explanation.report());
    let sites = Sites::new(history, options.listing.calls());
    print_causes(history, explanation, usize::MAX, out)?;
    if report.n_ooms > 1 {
        writeln!(out, "it is the last of {} failed requests", report.n_ooms)?;
    }
    print_warnings(history, out)?;
    if let Some(stack) = report.stack {
        writeln!(out, "\n{}", sites.row("asked by", &Site::Stack(stack)))?;
    }
    writeln!(out)?;
    print_figures(explanation, out)?;
    let (n_pending, pending_bytes) = (report.n_pending, report.pending_bytes);
    let (n_live, live_bytes) = (report.totals.n_blocks - n_pending, report.totals.allocated_bytes);
    let n_listed = options.listing.n;
    let list = |what: &str, n_blocks: usize, bytes: u64, groups: &[Group], out: &mut W| {
        writeln!(out, "\nthe biggest of {}, {}:\n{}", count(n_blocks, what), Bytes(bytes), Sites::heading())?;
        sites.print_groups(&groups[..groups.len().min(n_listed)], bytes, out)?;
        print_rest(groups, n_listed, bytes, |group| group.bytes, out)
    };
    list("live block", n_live, live_bytes, explanation.live(), out)?;
    if n_pending > 0 {
        list("pending block", n_pending, pending_bytes, explanation.pending(), out)?;
    }
    let advice = advice(explanation, asked);
    if !advice.is_empty() {
        writeln!(out, "\n{}", advice.join("\n"))?;
    }
    Ok(())
}

/// Prints the figures, and what limits them.
fn print_figures(explanation: &Explanation<'_, '_>, out: &mut impl Write) -> io::Result<()> {
    for (name, value) in explanation.figures() {
        writeln!(out, "{}", wrapped(&format!("  {name:24}  {value}"), 28))?;
    }
    explanation.notes().into_iter().try_for_each(|note| print_text(format!("  {note}"), out))
}
