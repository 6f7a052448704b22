//! Prints the ranks as JSON, one object per line.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel_snapshot::analysis::ranks::{RankFigures, Why};
use serde_json::{Value, json};

use super::{
    by_step,
    compared::{All, Compared},
};
use crate::text::Page;

/// Prints a line for each rank, outliers first, and one for each file that cannot be read.
pub(super) fn print(all: &All, out: &mut Page) -> io::Result<()> {
    for one in &all.ranks {
        writeln!(out, "{}", line(one))?;
    }
    broken(all, out)
}

fn broken(all: &All, out: &mut Page) -> io::Result<()> {
    for one in &all.broken {
        let line = json!({ "file": one.path.display().to_string(), "rank": one.rank, "error": one.why });
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn line(Compared { path, rank, figures, verdict, .. }: &Compared) -> Value {
    let RankFigures { peak, end, oom, .. } = figures;
    json!({
        "file": path.display().to_string(),
        "rank": rank,
        "device": figures.device,
        "n_events": figures.n_events,
        "first_us": figures.first_us,
        "last_us": figures.last_us,
        "peak": peak,
        "peak_us": figures.peak_us,
        "peak_scope": figures.peak_scope,
        "reserved_bytes": figures.reserved_bytes,
        "waste_bytes": figures.waste_bytes,
        "end_bytes": end.active_bytes,
        "owners": figures.owners,
        "sites": figures.sites,
        "oom": oom.as_ref().map(|oom| json!({
            "event": oom.entry,
            "n_ooms": oom.n_ooms,
            "requested_bytes": oom.requested_bytes,
            "time_us": oom.time_us,
            "scope": oom.scope,
            "step": oom.step,
            "site": oom.site,
        })),
        "steps": figures.steps,
        "n_steps": figures.n_steps,
        "is_outlier": verdict.is_outlier(),
        "whys": verdict.whys.iter().map(worded).collect::<Vec<_>>(),
        "first_difference": verdict.first_difference.as_ref().map(worded),
        "warnings": figures.warnings,
    })
}

fn worded(why: &Why) -> Value {
    let bytes = why.figures();
    json!({
        "kind": why.kind(),
        "begin": why.begin(),
        "text": why.to_string(),
        "bytes": bytes.map(|(bytes, _)| bytes),
        "usual_bytes": bytes.map(|(_, usual_bytes)| usual_bytes),
    })
}

/// Prints a line for each step, and one for each file that cannot be read.
pub(super) fn print_steps(all: &All, out: &mut Page) -> io::Result<()> {
    for step in by_step::steps(all) {
        let peak = |(bytes, one): &(u64, &Compared)| json!({ "file": one.path.display().to_string(), "rank": one.rank, "device": one.figures.device, "peak_bytes": bytes });
        let line = json!({
            "step": step.name,
            "median_bytes": step.median_bytes(),
            "ranks": step.peaks.iter().map(peak).collect::<Vec<_>>(),
        });
        writeln!(out, "{line}")?;
    }
    broken(all, out)
}
