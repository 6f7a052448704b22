//! The ranks as JSON, one object a line.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel::analysis::ranks::{RankFigures, Why};
use serde::Serialize;
use serde_json::json;

use super::{
    by_step,
    compared::{All, Compared},
};

#[derive(Serialize)]
struct Line<'a> {
    file: String,
    rank: Option<u64>,
    #[serde(flatten)]
    figures: &'a RankFigures,
    is_outlier: bool,
    whys: Vec<Worded<'a>>,
    first_difference: Option<Worded<'a>>,
}

/// A difference, with its words.
#[derive(Serialize)]
struct Worded<'a> {
    #[serde(flatten)]
    why: &'a Why,
    text: String,
}

impl<'a> Worded<'a> {
    fn new(why: &'a Why) -> Worded<'a> {
        Worded { why, text: why.to_string() }
    }
}

/// Prints a line for each rank, the outliers first, and one for each file that cannot be read.
pub(super) fn print(all: &All, out: &mut impl Write) -> io::Result<()> {
    for Compared { path, rank, figures, verdict, .. } in &all.ranks {
        let line = Line {
            file: path.display().to_string(),
            rank: *rank,
            figures,
            is_outlier: verdict.is_outlier(),
            whys: verdict.whys.iter().map(Worded::new).collect(),
            first_difference: verdict.first_difference.as_ref().map(Worded::new),
        };
        serde_json::to_writer(&mut *out, &line)?;
        writeln!(out)?;
    }
    for one in &all.broken {
        let line = json!({ "file": one.path.display().to_string(), "rank": one.rank, "error": one.why });
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Prints a line for each step.
pub(super) fn print_steps(all: &All, out: &mut impl Write) -> io::Result<()> {
    for step in by_step::steps(all) {
        let peak = |(bytes, one): &(u64, &Compared)| json!({ "file": one.path.display().to_string(), "rank": one.rank, "device": one.figures.device, "peak_bytes": bytes });
        let line = json!({
            "step": step.name,
            "median_bytes": step.median_bytes(),
            "ranks": step.peaks.iter().map(peak).collect::<Vec<_>>(),
        });
        writeln!(out, "{line}")?;
    }
    Ok(())
}
