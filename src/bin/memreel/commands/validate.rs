//! `memreel validate`: every finding of every file, and a summary of each.

use std::{
    io::{self, Write},
    path::Path,
};

use memreel::{
    pickle::{self, Inspection},
    snapshot::validate::{Finding, Severity, validate},
};
use serde_json::json;

use crate::{
    args::Validate,
    exit::Exit,
    input::{Failure, piped},
};

/// Prints what is wrong with the files; the worst of them makes the exit status.
pub(crate) fn run(options: &Validate, out: &mut impl Write) -> io::Result<Exit> {
    let mut worst = Exit::Fine;
    for file in &options.files {
        let (findings, refusal) = check(file);
        let least = options.severity.severity();
        for finding in findings.iter().filter(|finding| finding.severity >= least) {
            print(finding, file, options.json, out)?;
        }
        summarize(&findings, refusal.as_deref(), file, options.json, out)?;
        worst = worst.max(exit(&findings, refusal.as_deref()));
    }
    Ok(worst)
}

/// All findings on a file, and why it could not be read if that is so.
fn check(file: &Path) -> (Vec<Finding>, Option<String>) {
    let Inspection { snapshot, mut findings, .. } = match inspect(file) {
        Ok(inspection) => inspection,
        Err(refusal) => return (Vec::new(), Some(refusal)),
    };
    match snapshot {
        Ok(snapshot) => {
            findings.extend(validate(&snapshot));
            (findings, None)
        }
        Err(error) => (findings, Some(error.to_string())),
    }
}

fn inspect(file: &Path) -> Result<Inspection, String> {
    match piped(file) {
        Ok(Some(bytes)) => Ok(pickle::inspect_slice(&bytes)),
        Ok(None) => pickle::inspect(file).map_err(|error| error.to_string()),
        Err(Failure::Told(_, what)) => Err(what),
        Err(Failure::Write(error)) => Err(error.to_string()),
    }
}

fn exit(findings: &[Finding], refusal: Option<&str>) -> Exit {
    let has_error = findings.iter().any(|finding| finding.severity == Severity::Error);
    match (refusal, has_error) {
        (Some(_), _) => Exit::Unreadable,
        (None, true) => Exit::Broken,
        (None, false) => Exit::Fine,
    }
}

fn print(finding: &Finding, file: &Path, json: bool, out: &mut impl Write) -> io::Result<()> {
    let Finding { rule, severity, place, what, .. } = finding;
    if !json {
        return writeln!(out, "{}: {finding}", file.display());
    }
    let severity = severity.letter().to_string();
    let file = file.to_string_lossy();
    let line = json!({"file": file, "rule": rule, "severity": severity, "place": place, "what": what});
    writeln!(out, "{line}")
}

fn summarize(
    findings: &[Finding],
    refusal: Option<&str>,
    file: &Path,
    json: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let [errors, warnings, differences] = [Severity::Error, Severity::Warning, Severity::Pytorch].map(count);
    if json {
        let file = file.to_string_lossy();
        let summary = json!({"E": errors, "W": warnings, "P": differences});
        return writeln!(out, "{}", json!({"file": file, "summary": summary, "refused": refusal}));
    }
    let file = file.display();
    match refusal {
        Some(refused) => writeln!(out, "{file}: refused: {refused}"),
        None if findings.is_empty() => writeln!(out, "{file}: fine"),
        None => writeln!(out, "{file}: {errors} E, {warnings} W, {differences} P"),
    }
}
