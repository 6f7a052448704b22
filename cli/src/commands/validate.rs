//! `memreel validate`: every finding of every file, and a summary of each.

use std::io::{self, Write};

use memreel::{
    Snapshot,
    validate::{Finding, Severity, validate},
};
use serde_json::json;

use crate::{
    args::Validate,
    exit::Exit,
    input::{Failure, inspect, name},
};

/// Prints what is wrong with the files; the worst of them makes the exit status.
pub(crate) fn run(options: &Validate, out: &mut impl Write) -> io::Result<Exit> {
    let mut worst = Exit::Fine;
    for path in &options.files {
        let file = name(path);
        let exit = match inspect(path) {
            Ok((snapshot, findings)) => report(&file, snapshot, findings, options, out)?,
            Err(Failure::Told(exit, what)) => {
                eprintln!("memreel: {file}: {what}");
                exit
            }
            Err(Failure::Write(error)) => return Err(error),
        };
        worst = worst.max(exit);
    }
    Ok(worst)
}

fn report(
    file: &str,
    snapshot: Result<Snapshot, String>,
    mut findings: Vec<Finding>,
    options: &Validate,
    out: &mut impl Write,
) -> io::Result<Exit> {
    findings.extend(snapshot.as_ref().map(validate).unwrap_or_default());
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

fn print(finding: &Finding, file: &str, json: bool, out: &mut impl Write) -> io::Result<()> {
    let Finding { rule, severity, place, what, .. } = finding;
    if !json {
        return writeln!(out, "{file}: {finding}");
    }
    let severity = severity.letter().to_string();
    let line = json!({"file": file, "rule": rule, "severity": severity, "place": place, "what": what});
    writeln!(out, "{line}")
}

fn summarize(
    findings: &[Finding],
    refusal: Option<&str>,
    file: &str,
    json: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let [errors, warnings, differences] = [Severity::Error, Severity::Warning, Severity::Pytorch].map(count);
    if json {
        let summary = json!({"E": errors, "W": warnings, "P": differences});
        return writeln!(out, "{}", json!({"file": file, "summary": summary, "refused": refusal}));
    }
    match refusal {
        Some(refused) => writeln!(out, "{file}: refused: {refused}"),
        None if findings.is_empty() => writeln!(out, "{file}: fine"),
        None => writeln!(out, "{file}: {errors} E, {warnings} W, {differences} P"),
    }
}
