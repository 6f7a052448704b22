//! `memreel oom`: why a request ran out of memory.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use memreel_answers::{Failed, Oom, OomQuestion, Question};
use memreel_snapshot::{
    DeviceId,
    analysis::{
        DeviceHistory, Group, Site,
        oom::{CauseKind, Explanation},
    },
    log::Messages,
};

use crate::{
    exit::Exit,
    failure::Failure,
    findings::{
        causes::print_causes,
        logged::{self, answer_logs},
    },
    input::{Opener, each::DeviceOfFile, each_device, log_file, name, own_memory::is_host},
    options::{Devices, Input, Listing},
    text::{
        Bytes, Page, Sites, count,
        fit::command,
        print_text, print_warnings, print_wrapped,
        rest::{print_rest, rest},
        shell_word,
    },
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
`memreel oom` explains why the last failed request failed. `segment needed` is
how much the allocator had to take from the device to satisfy it. `free in this
pool` is free memory in the request's stream and pool; `free elsewhere` is free
memory in other streams and pools. `would fit if compacted` says whether the
request would fit if all of `free in this pool` and `free on the device` were in
one piece. `pending` is freed memory that cannot be reused until a stream has
finished with it.

`with expandable segments` comes from a replay of the history up to the request.
It is `yes` or `no` only if the history is complete and the result does not
depend on the addresses that the device returns; otherwise it is `perhaps`. Run
`memreel replay --conf expandable_segments:True --limit BYTES` for the figures.
With --json, the answer is in the field `with_expandable_segments`, and in
`fits_expandable` as true, false or null (not known).

Act on the causes in the order shown. The first is the verdict (`verdict` and
`why` with --json). The causes are:
  grew               a site leaks, or holds more than in any earlier step
  free and not used  a large enough free piece was not used: because of
                     max_split_size_mb, because of a private pool that is not
                     in the file, or because it was freed after the request had
                     started to wait
  fragmented         this stream and pool had enough free memory, by itself or
                     together with the device's free memory, but not in one
                     piece
  rounded up         this pool's and the device's free memory were enough for
                     the request itself, but not for the larger segment that it
                     needed
  free elsewhere     enough was free, but some of it belonged to other streams,
                     to other pools, or to the pool for the other block size
                     (small or large)
  pending            there would have been enough, but some of the freed
                     memory was still waiting for a stream
  limited            the device had enough free memory, but a limit on the
                     process, or an external one, prevented its use
  occupied           much of the device's memory was held by something else:
                     other processes, or libraries in this one (a snapshot does
                     not show which)
  full               all free memory together was less than the request; the
                     output shows what is in use and what to reduce
  addresses          the request was for address space, and the process had
                     already reserved too much of it

Given a log, `memreel oom` explains its last out-of-memory message, using the
figures in the message. It understands messages from PyTorch, JAX, TensorFlow,
CuPy, llama.cpp and memreel, in logs of one rank or many.

Examples:
  memreel oom snapshot.pickle
  memreel oom train.log
  memreel oom snapshot.pickle --log train.log

Exit status: 0 no request failed; 1 a request failed; 2 usage error; 3 a file
cannot be read, is not a snapshot, or is a log with no out-of-memory message.")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    listing: Listing,

    /// Use this log for what the snapshot lacks: the device's size, and what else holds memory
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    let beside = options.log.as_deref().map(|path| log_beside(path, opener)).transpose()?;
    let (worst, files) = answer_logs(&options.input, opener, out)?;
    if files.is_empty() {
        return Ok(worst);
    }
    let input = Input { files, ..options.input.clone() };
    Ok(worst.max(of_snapshots(&input, opener, options, beside.as_ref(), out)?))
}

/// Reads the log of `--log`.
fn log_beside(path: &Path, opener: &Opener) -> Result<Messages, Failure> {
    let of_file = |failure: Failure| failure.of_file(&name(path));
    let messages = log_file::read(path, opener).map_err(of_file)?;
    let messages = messages
        .ok_or_else(|| of_file(Failure::Message(Exit::Unreadable, "not a log: it is not text".to_owned())))?;
    match messages.last {
        Some(_) => Ok(messages),
        None => Err(of_file(log_file::no_message(path, &messages, opener))),
    }
}

fn of_snapshots(
    input: &Input,
    opener: &Opener,
    options: &Options,
    beside: Option<&Messages>,
    out: &mut Page,
) -> Result<Exit, Failure> {
    let message = |device: DeviceId| beside.and_then(|messages| messages.of_device(device.0));
    each_device(input, opener, out, |asked, out| {
        let question = OomQuestion { n: options.listing.n, message: message(asked.device) };
        let oom = question.ask(asked.subject())?;
        if input.json {
            asked.print_answer(&oom, out)?;
        } else {
            match &oom {
                Oom::Yes(failed) => print(options, asked, failed, out)?,
                _ => print_none(asked.history(), out)?,
            }
        }
        Ok(if matches!(oom, Oom::Yes(_)) { Exit::Broken } else { Exit::Fine })
    })
}

fn print_none(history: &DeviceHistory<'_>, out: &mut Page) -> io::Result<()> {
    print_text(why_none(history), out)?;
    if history.entries().is_empty() { Ok(()) } else { print_warnings(history, out) }
}

fn why_none(history: &DeviceHistory<'_>) -> &'static str {
    if history.entries().is_empty() {
        "the file has no history for the device, so it does not show whether a request failed; `memreel top` \
         shows what is held"
    } else {
        "no requests failed in the recorded history"
    }
}

/// Returns commands that answer what comes next: what grew, or who requested what is in use; more settings, if unusable
/// free memory is more than a minor cause; and what the other devices of the file have.
fn advice(explanation: &Explanation<'_, '_>, asked: &DeviceOfFile<'_>, page: &Page) -> Vec<String> {
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
        |what, words: &[&str]| command(what, &[&["memreel"], words, &of_device, &[&*file]].concat(), page);
    let is_cause = |kind| causes.iter().any(|cause| cause.kind == kind);
    let mut advice = Vec::new();
    if is_cause(CauseKind::Grew) {
        advice.push(on_device("what grew: ", &["leaks"]));
    } else if is_cause(CauseKind::Full) {
        advice.push(on_device("see the call tree: ", &["top", "--tree"]));
    }
    if causes.iter().any(|cause| cause.conf.is_some()) {
        advice.push(on_device("more settings: ", &["replay", "--sweep"]));
    }
    if n_gpus > 1 {
        advice.push(command("compare the devices: ", &["memreel", "ranks", &file], page));
    }
    advice
}

fn print(
    options: &Options,
    asked: &DeviceOfFile<'_>,
    failed: &Failed<'_>,
    out: &mut Page,
) -> Result<(), Failure> {
    let Failed { explanation, message, n, .. } = failed;
    let (history, report) = (asked.history(), explanation.report());
    let sites = Sites::new(history, options.listing.calls());
    print_causes(history, explanation, usize::MAX, out)?;
    if report.n_ooms > 1 {
        writeln!(out, "the last of {} failed requests", report.n_ooms)?;
    }
    print_warnings(history, out)?;
    if let Some(stack) = report.stack {
        writeln!(out, "\n{}", sites.row("requested by", &Site::Stack(stack), out))?;
    }
    writeln!(out)?;
    print_figures(explanation, out)?;
    if let (Some(message), Some(log)) = (message, &options.log) {
        let added = logged::added(message, report, &name(log));
        added.into_iter().try_for_each(|line| print_text(format!("  {line}"), out))?;
    }
    let (n_pending, pending_bytes) = (report.n_pending, report.pending_bytes);
    let (n_live, live_bytes) = (report.totals.n_blocks - n_pending, report.totals.allocated_bytes);
    let list = |what: &str, n_blocks: usize, bytes: u64, groups: &[Group], out: &mut Page| {
        writeln!(
            out,
            "\nlargest sites ({}, {} in all):\n{}",
            count(n_blocks, what),
            Bytes(bytes),
            Sites::heading(out)
        )?;
        sites.print_groups(&groups[..groups.len().min(*n)], bytes, out)?;
        print_rest(rest(groups, *n, |group| group.bytes), bytes, out)
    };
    list("live block", n_live, live_bytes, explanation.live(), out)?;
    if n_pending > 0 {
        list("pending block", n_pending, pending_bytes, explanation.pending(), out)?;
    }
    let advice = advice(explanation, asked, out);
    if !advice.is_empty() {
        writeln!(out, "\n{}", advice.join("\n"))?;
    }
    Ok(())
}

/// Prints the figures, and their limitations.
fn print_figures(explanation: &Explanation<'_, '_>, out: &mut Page) -> io::Result<()> {
    for (name, value) in explanation.figures() {
        print_wrapped(&format!("  {name:24}  {value}"), 28, out)?;
    }
    explanation.notes().into_iter().try_for_each(|note| print_text(format!("  {note}"), out))
}
