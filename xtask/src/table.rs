//! The table of steps, with the time and the end of each.
#![forbid(unsafe_code)]

use std::{
    fmt,
    time::{Duration, Instant},
};

use crate::steps::{Outcome, Step};

#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

struct Row {
    name: &'static str,
    took: Duration,
    end: String,
}

const PASSED: &str = "passed";
const FAILED: &str = "failed";

impl Table {
    /// Adds the row of a step, and returns whether it found no fault.
    pub(crate) fn add(&mut self, step: &Step, (outcome, took): (Result<Outcome, String>, Duration)) -> bool {
        let passed = outcome.is_ok();
        let end = match outcome {
            Ok(Outcome::Passed) => PASSED.to_owned(),
            Ok(Outcome::Skipped(why)) => format!("skipped: {why}"),
            Err(_) => FAILED.to_owned(),
        };
        self.rows.push(Row { name: step.name, took, end });
        passed
    }

    /// Adds the row of work that can neither pass nor fail.
    pub(crate) fn time(&mut self, name: &'static str, work: impl FnOnce()) {
        let begun = Instant::now();
        work();
        self.rows.push(Row { name, took: begun.elapsed(), end: String::new() });
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |end: &str| self.rows.iter().filter(|row| row.end == end).count();
        let (passed, failed) = (count(PASSED), count(FAILED));
        let skipped = self.rows.iter().filter(|row| row.end.starts_with("skipped")).count();
        for row in &self.rows {
            writeln!(f, "{:<14}{:>7.1} s  {}", row.name, row.took.as_secs_f64(), row.end)?;
        }
        let sum: Duration = self.rows.iter().map(|row| row.took).sum();
        writeln!(f, "{:<14}{:>7.1} s\n", "together", sum.as_secs_f64())?;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}
