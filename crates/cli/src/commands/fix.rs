//! `memreel fix`: repairs a file that the viewer cannot open.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use memreel_snapshot::{
    rewrite::{Change, fix},
    validate::{Finding, Rule, Severity, validate},
};
use serde_json::json;

use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opener, each_path, name},
    options::output::Output,
    text::{Bytes, Page, ShownPath, clean, print_text},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
`memreel fix` prints one line for each kind of change. The output is always
protocol 4 in small batches with shared stacks, which every viewer reads.
Missing events are added at the latest point at which they can have happened;
events that contradict the segments are removed. Without -o, nothing is written.
The whole file is repaired; to extract one device, use `memreel split`.

Two of the repairs are only for older viewers, such as a copy from 2025: since
June 2026, the viewer at pytorch.org/memory_viz reads pickle protocol 5, and
files in which no category is \"unknown\". The other repairs are for files that
break or mislead every viewer: events left out by skip_actions, rings out of
order, missing lists.

Examples:
  memreel fix snapshot.pickle -o fixed.pickle

Exit status: 0 done; 1 some errors cannot be repaired; 2 usage error; 3 a file
cannot be read or written.")]
pub(crate) struct Options {
    #[command(flatten)]
    output: Output,

    /// Print one JSON object per file, one per line
    #[arg(long)]
    json: bool,

    /// Snapshot files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    options.output.fits(options.files.len())?;
    each_path(&options.files, |file| fix_file(file, opener, options, out))
}

/// What was changed in a file, and what could not be repaired.
struct Report {
    /// Findings about the bytes, which end with rewriting them.
    bytes: Vec<Finding>,
    changes: Vec<Change>,
    left: Vec<Finding>,
    written: Option<PathBuf>,
}

fn fix_file(file: &Path, opener: &Opener, options: &Options, out: &mut Page) -> Result<Exit, Failure> {
    let (snapshot, mut bytes) = opener.inspect(file)?;
    let fixed =
        fix(snapshot.map(Arc::unwrap_or_clone).map_err(|why| Failure::Message(Exit::Unreadable, why))?);
    let is_error = |finding: &Finding| finding.severity == Severity::Error;
    // The result is validated while it is written.
    let left = || -> Vec<Finding> { validate(&fixed.snapshot).into_iter().filter(is_error).collect() };
    let (written, left) = thread::scope(|scope| {
        let beside = thread::Builder::new().spawn_scoped(scope, left);
        let written = options.output.save(&fixed.snapshot, &name(file), out);
        // A page has no threads.
        let found = beside.map(|beside| beside.join().unwrap_or_else(|panic| resume_unwind(panic)));
        (written, found.unwrap_or_else(|_| left()))
    });
    bytes.retain(|finding| {
        matches!(finding.rule, Rule::PickleOpcodes | Rule::Integers | Rule::SharedRecords | Rule::Texts)
    });
    let report = Report { bytes, changes: fixed.changes, left, written: written? };
    let exit = if report.left.is_empty() { Exit::Fine } else { Exit::Broken };
    if !options.output.is_stdout() {
        print(&report, &name(file), options.json, out)?;
    }
    Ok(exit)
}

fn print(report: &Report, file: &str, json: bool, out: &mut Page) -> io::Result<()> {
    if json {
        return print_json(report, file, out);
    }
    let (path, file) = (file, clean(file));
    for (what, count) in counted(&report.bytes) {
        let times = if count == 1 { String::new() } else { format!(" ({count})") };
        print_text(format!("{file}: rewritten: {what}{times}"), out)?;
    }
    for change in &report.changes {
        print_text(format!("{file}: {change}"), out)?;
    }
    for finding in &report.left {
        print_text(format!("{file}: not repaired: {finding}"), out)?;
    }
    match &report.written {
        Some(written) => {
            let sizes = sizes(written, path);
            print_text(format!("{file}: written to {}{sizes}", ShownPath(written)), out)
        }
        None if report.bytes.is_empty() && report.changes.is_empty() => {
            print_text(format!("{file}: nothing to repair"), out)
        }
        None => print_text(format!("{file}: nothing is written without -o"), out),
    }
}

/// Returns both sizes, if sharing stacks and texts made the file smaller.
fn sizes(written: &Path, file: &str) -> String {
    let size = |path: &Path| std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
    match (size(written), size(Path::new(file))) {
        (Some(now), Some(before)) if now.len() < before.len() => {
            format!(", {} instead of {}", Bytes(now.len()), Bytes(before.len()))
        }
        _ => String::new(),
    }
}

fn print_json(report: &Report, file: &str, out: &mut Page) -> io::Result<()> {
    let bytes: Vec<_> = counted(&report.bytes)
        .into_iter()
        .map(|(what, count)| json!({"what": what, "count": count}))
        .collect();
    let change = |change: &Change| json!({"place": change.place, "what": change.what, "count": change.count});
    let left: Vec<_> = report.left.iter().map(ToString::to_string).collect();
    let line = json!({
        "file": file,
        "written_anew": bytes,
        "changes": report.changes.iter().map(change).collect::<Vec<_>>(),
        "left": left,
        "written": report.written.as_ref().map(|path| path.display().to_string()),
    });
    writeln!(out, "{line}")
}

/// Counts the findings of each kind: those that differ only in their figures.
fn counted(findings: &[Finding]) -> Vec<(&str, usize)> {
    let kind = |what: &str| -> String { what.chars().filter(|c| !c.is_ascii_digit() && *c != '-').collect() };
    let mut lines: Vec<(&str, usize)> = Vec::new();
    for finding in findings {
        match lines.iter_mut().find(|(what, _)| kind(what) == kind(&finding.what)) {
            Some((_, count)) => *count += 1,
            None => lines.push((&finding.what, 1)),
        }
    }
    lines
}
