//! `memreel validate`: every finding about every file, and a summary of each.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use clap::ValueEnum;
use memreel_snapshot::{
    Snapshot,
    validate::{Finding, Severity, validate},
};
use serde_json::json;

use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opener, each_path, name},
    text::{Page, clean, print_text},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each finding is printed as `FILE: E21 PLACE: TEXT`: the severity and number of
the broken rule (see schema/snapshot.md), where it is broken, and how. E (error):
some reader fails or shows wrong figures. W (warning): viewers draw misleading
pictures. P (PyTorch): a harmless difference from what PyTorch writes.

Examples:
  memreel validate --severity w snapshot.pickle

JSON in the viewer's format is also read; rules 3 and 5 are about the bytes of a
pickle and do not apply to it. There is no --device, because viewers read a file
as a whole.

Exit status: 0 no E finding; 1 at least one E finding; 2 usage error; 3 a file
cannot be read or is not a snapshot. With several files, it is the highest of
these.")]
pub(crate) struct Options {
    /// Print one JSON object per line: every finding, and a summary for each file
    #[arg(long)]
    json: bool,

    /// Print findings of this severity and above
    #[arg(long, value_enum, default_value = "p", ignore_case = true)]
    severity: Least,

    /// Snapshot files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Least {
    /// Only errors
    E,
    /// Errors and warnings
    W,
    /// Everything
    P,
}

impl Least {
    fn severity(self) -> Severity {
        match self {
            Least::E => Severity::Error,
            Least::W => Severity::Warning,
            Least::P => Severity::Pytorch,
        }
    }
}

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    each_path(&options.files, |path| {
        let (snapshot, findings) = opener.inspect(path)?;
        Ok(report(&name(path), snapshot, findings, options, out)?)
    })
}

fn report(
    file: &str,
    snapshot: Result<Arc<Snapshot>, String>,
    mut findings: Vec<Finding>,
    options: &Options,
    out: &mut Page,
) -> io::Result<Exit> {
    findings.extend(snapshot.as_deref().map(validate).unwrap_or_default());
    let refusal = snapshot.err();
    let least = options.severity.severity();
    for finding in findings.iter().filter(|finding| finding.severity >= least) {
        print(finding, file, options.json, out)?;
    }
    summarize(&findings, refusal.as_deref(), file, options.json, out)?;
    Ok(exit(&findings, refusal.as_deref()))
}

fn exit(findings: &[Finding], refusal: Option<&str>) -> Exit {
    let has_error = findings.iter().any(|finding| finding.severity == Severity::Error);
    match (refusal, has_error) {
        (Some(_), _) => Exit::Unreadable,
        (None, true) => Exit::Broken,
        (None, false) => Exit::Fine,
    }
}

fn print(finding: &Finding, file: &str, json: bool, out: &mut Page) -> io::Result<()> {
    let Finding { rule, severity, place, what, .. } = finding;
    if !json {
        return print_text(format!("{}: {finding}", clean(file)), out);
    }
    let severity = severity.letter().to_string();
    let line =
        json!({"file": file, "rule": rule.number(), "severity": severity, "place": place, "what": what});
    writeln!(out, "{line}")
}

fn summarize(
    findings: &[Finding],
    refusal: Option<&str>,
    file: &str,
    json: bool,
    out: &mut Page,
) -> io::Result<()> {
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let [errors, warnings, differences] = [Severity::Error, Severity::Warning, Severity::Pytorch].map(count);
    if json {
        let summary = json!({"E": errors, "W": warnings, "P": differences});
        return writeln!(out, "{}", json!({"file": file, "summary": summary, "refused": refusal}));
    }
    let file = clean(file);
    match refusal {
        Some(refused) => print_text(format!("{file}: refused: {refused}"), out),
        None if findings.is_empty() => print_text(format!("{file}: valid"), out),
        None => {
            let plural = |n| if n == 1 { "" } else { "s" };
            let [es, ws, ps] = [errors, warnings, differences].map(plural);
            let differences = format!("{differences} difference{ps} from what PyTorch writes (P)");
            print_text(
                format!("{file}: {errors} error{es} (E), {warnings} warning{ws} (W), {differences}"),
                out,
            )
        }
    }
}
