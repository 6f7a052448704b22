//! Answers about a log: its last message, why that request failed, and what to record.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use memreel_snapshot::{
    analysis::oom::{Cause, LoggedOom, OomReport},
    log::{Message, Messages, OfRank},
};
use serde_json::{Value, json};

use super::causes::print_list;
use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opener, log_file, name},
    options::{Devices, Input},
    text::{Bytes, Page, clean, count, print_line, print_text, print_wrapped, shell_word},
};

/// The most ranks that are listed as text.
const N_RANKS: usize = 16;

/// How many of the program's own calls in a traceback are printed.
const N_OWN_CALLS: usize = 3;

/// Answers about the logs among the files, and returns the other files.
pub(crate) fn answer_logs(
    input: &Input,
    opener: &Opener,
    out: &mut Page,
) -> Result<(Exit, Vec<PathBuf>), Failure> {
    let (mut logs, mut files) = (Vec::new(), Vec::new());
    for path in &input.files {
        match log_file::read(path, opener).map_err(|failure| failure.of_file(&name(path)))? {
            Some(messages) if messages.last.is_some() || !log_file::is_snapshot(path, opener) => {
                logs.push((path, messages))
            }
            _ => files.push(path.clone()),
        }
    }
    let mut worst = Exit::Fine;
    for (path, messages) in &logs {
        worst = worst.max(of_log(path, messages, input, opener, out)?);
    }
    Ok((worst, files))
}

/// Answers about a log.
fn of_log(
    path: &Path,
    messages: &Messages,
    input: &Input,
    opener: &Opener,
    out: &mut Page,
) -> Result<Exit, Failure> {
    let name = name(path);
    let answered = match &messages.last {
        Some(_) => answer(&name, messages, input.device, input.json, out),
        None => Err(log_file::no_message(path, messages, opener)),
    };
    match answered {
        Err(failure) if input.files.len() == 1 => Err(failure.of_file(&name)),
        Err(failure) => Ok(failure.of_file(&name).report()?),
        answered => answered,
    }
}

/// Prints the answer about the messages of a log.
fn answer(
    name: &str,
    messages: &Messages,
    device: Devices,
    is_json: bool,
    out: &mut Page,
) -> Result<Exit, Failure> {
    let message = match device {
        Devices::All => messages.last.as_ref(),
        Devices::Heap => {
            return Err(Failure::usage("no message about the heap: PyTorch's messages are about GPUs"));
        }
        Devices::One(device) => Some(
            messages
                .of_device(device.0)
                .ok_or_else(|| Failure::usage(format!("no message about device {device}")))?,
        ),
    };
    let Some(message) = message else { return Ok(Exit::Fine) };
    let logged = LoggedOom::new(message);
    if is_json {
        print_line(name, logged.device(), &record(messages, &logged), out)?;
    } else {
        print(name, messages, &logged, out)?;
    }
    Ok(Exit::Broken)
}

/// Returns the pairs of a line of `--json`.
fn record(messages: &Messages, logged: &LoggedOom<'_>) -> Value {
    let causes = logged.causes();
    let rank = |rank: &OfRank| {
        json!({
            "rank": rank.last.rank,
            "device": rank.last.device,
            "program": rank.last.program,
            "n_messages": rank.n_messages,
            "first_line": rank.first_line,
            "line": rank.last.line,
            "requested_bytes": rank.last.requested_bytes,
            "verdict": LoggedOom::new(&rank.last).causes().first().map(|cause| cause.kind),
        })
    };
    json!({
        "message": logged.message(),
        "verdict": causes.first().map(|cause| cause.kind),
        "releases": logged.releases(),
        "n_lines": messages.n_lines,
        "n_messages": messages.n_messages,
        "n_repeated": messages.n_repeated,
        "first_line": messages.first.as_ref().map(|message| message.line),
        "ranks": messages.ranks.iter().map(rank).collect::<Vec<_>>(),
        "causes": causes,
        "notes": logged.notes(),
        "record": logged.record_lines(),
    })
}

fn print(name: &str, messages: &Messages, logged: &LoggedOom<'_>, out: &mut Page) -> io::Result<()> {
    let (message, causes) = (logged.message(), logged.causes());
    print_text(head(name, messages, message, out), out)?;
    print_causes(logged, &causes, out)?;
    print_ranks(messages, message, out)?;
    writeln!(out)?;
    for (name, value) in logged.figures() {
        print_wrapped(&format!("  {name:24}  {value}"), 28, out)?;
    }
    let mut notes: Vec<String> = logged.notes();
    notes.extend(logged.releases().map(|releases| format!("the message has the format of {releases}")));
    if messages.n_long_lines > 0 {
        notes.push(format!(
            "{} longer than 1 MiB: only the first MiB was read",
            count(messages.n_long_lines, "line")
        ));
    }
    notes.iter().try_for_each(|note| print_wrapped(&format!("  {}", clean(note)), 2, out))?;
    print_next(name, logged, out)
}

/// Returns a line about the log.
fn head(name: &str, messages: &Messages, last: &Message, page: &Page) -> String {
    let bold = page.bold();
    let repeated = match messages.n_repeated {
        0 => String::new(),
        n => format!(", {n} of them repeated"),
    };
    let first = match &messages.first {
        Some(first) if first.line != last.line => {
            format!("; the first is on line {} ({} requested)", first.line, Bytes(first.requested_bytes))
        }
        _ => String::new(),
    };
    format!(
        "{bold}{}{bold:#}: a {}-line log with {} from {}{repeated}{first}",
        clean(name),
        messages.n_lines,
        count(messages.n_messages, "out-of-memory message"),
        last.program.name(),
    )
}

fn print_causes(logged: &LoggedOom<'_>, causes: &[Cause], out: &mut Page) -> io::Result<()> {
    let (red, message) = (out.red(), logged.message());
    let why = causes.first().map_or_else(String::new, |cause| format!(" (cause: {})", cause.kind.name()));
    let rank = message.rank.as_ref().map_or_else(String::new, |rank| format!(", {}", clean(rank)));
    let device = message.device.map_or_else(String::new, |device| format!(" on device {device}"));
    print_text(
        format!(
            "{red}out of memory{why}{red:#}: a request for {} failed{device}, line {}{rank}",
            Bytes(message.requested_bytes),
            message.line,
        ),
        out,
    )?;
    if causes.is_empty() {
        print_text("the message lacks the figures that show why".to_owned(), out)?;
        print_text(logged.full_advice(), out)?;
    }
    print_list(causes, out)?;
    match logged.asked_by(N_OWN_CALLS) {
        calls if calls.is_empty() => Ok(()),
        calls => print_text(format!("requested by {}", clean(&calls.join(" ← "))), out),
    }
}

/// Prints the last message of each rank, if there are several, and the cause of those that are not explained above.
fn print_ranks(messages: &Messages, shown: &Message, out: &mut Page) -> io::Result<()> {
    if messages.ranks.len() < 2 {
        return Ok(());
    }
    writeln!(out, "\nthe last message of each rank or device:")?;
    for rank in messages.ranks.iter().take(N_RANKS) {
        let last = &rank.last;
        let causes = LoggedOom::new(last).causes();
        let why = causes.first().map_or("unknown", |cause| cause.kind.name());
        let device = last.device.map_or_else(String::new, |device| format!("device {device}, "));
        let who = last.rank.as_ref().map_or_else(String::new, |rank| format!("{}, ", clean(rank)));
        // A line may have the messages of several.
        let is_shown = (last.line, last.device, &last.rank) == (shown.line, shown.device, &shown.rank);
        let mark = if is_shown { ", explained above" } else { "" };
        let lines = match rank.n_messages {
            1 => format!("1 message, on line {}", rank.first_line),
            n => format!("{n} messages, from line {} on", rank.first_line),
        };
        let text = format!(
            "  {who}{device}line {}: {} requested (cause: {why}); {lines}{mark}",
            last.line,
            Bytes(last.requested_bytes),
        );
        print_wrapped(&text, 4, out)?;
        if let Some(cause) = causes.first().filter(|_| !is_shown) {
            print_wrapped(&format!("    {}", clean(&cause.finding)), 4, out)?;
        }
    }
    match messages.ranks.len().saturating_sub(N_RANKS) {
        0 => Ok(()),
        n => writeln!(out, "  and {n} more (--json has all)"),
    }
}

/// Prints what to record next time, and the command that reads it.
fn print_next(name: &str, logged: &LoggedOom<'_>, out: &mut Page) -> io::Result<()> {
    let lines = logged.record_lines();
    let Some(last) = lines.last() else { return Ok(()) };
    writeln!(out, "\nto record what holds the memory next time:")?;
    lines.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    if last.contains("oom.pickle") {
        writeln!(
            out,
            "  memreel oom oom.pickle --log {}",
            if name == "standard input" { "LOG".to_owned() } else { shell_word(name) }
        )?;
    } else if last.contains("memory.prof") {
        writeln!(out, "  memreel top memory.prof")?;
    }
    Ok(())
}

/// Returns what a message adds to a snapshot's failed request, one line each.
pub(crate) fn added(message: &Message, report: &OomReport, log: &str) -> Vec<String> {
    let Some(capacity) = message.capacity_bytes else { return Vec::new() };
    let line = format!("line {} of {}", message.line, clean(log));
    if report.device_total_bytes.is_none() {
        return vec![format!(
            "{line} is about another device: it has {}, less than is free and reserved here",
            Bytes(capacity)
        )];
    }
    let mut parts = vec![format!("by {line}, the device has {}", Bytes(capacity))];
    parts.extend(
        message.others.iter().map(|other| format!("process {} has {}", other.pid, Bytes(other.bytes))),
    );
    parts.extend(message.process_bytes.map(|bytes| format!("this process has {} in total", Bytes(bytes))));
    let mut lines = vec![match &parts[..] {
        [first @ .., last] if !first.is_empty() => format!("{}, and {last}", first.join(", ")),
        _ => parts.concat(),
    }];
    if message.requested_bytes.abs_diff(report.segment_bytes) > message.rounding_bytes {
        lines.push(format!("that line is about another request, of {}", Bytes(message.requested_bytes)));
    }
    lines
}
