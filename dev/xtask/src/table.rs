//! The table of steps, with the time and the outcome of each.
#![forbid(unsafe_code)]

use std::{
    fmt,
    time::{Duration, Instant},
};

use crate::{processor, steps::Outcome};

#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

struct Row {
    name: &'static str,
    took: Duration,
    /// The processor time, possibly of more than one processor.
    worked: Duration,
    end: String,
}

const PASSED: &str = "passed";
const FAILED: &str = "failed";

impl Table {
    /// Adds the row of a step, and returns whether it found no fault.
    pub(crate) fn add(&mut self, name: &'static str, run: impl FnOnce() -> Result<Outcome, String>) -> bool {
        let (outcome, took, worked) = timed(run);
        let passed = outcome.is_ok();
        let end = match outcome {
            Ok(Outcome::Passed) => PASSED.to_owned(),
            Ok(Outcome::Skipped(why)) => format!("skipped: {why}"),
            Err(_) => FAILED.to_owned(),
        };
        self.rows.push(Row { name, took, worked, end });
        passed
    }

    /// Adds the row of work that can neither pass nor fail.
    pub(crate) fn time(&mut self, name: &'static str, work: impl FnOnce()) {
        let ((), took, worked) = timed(work);
        self.rows.push(Row { name, took, worked, end: String::new() });
    }
}

/// Does work, and returns how long it took and the processor time of the programs that it ran.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration, Duration) {
    let (begun, before) = (Instant::now(), processor::of_children());
    let done = work();
    (done, begun.elapsed(), processor::of_children().saturating_sub(before))
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, took: Duration, worked: Duration, end: &str) -> fmt::Result {
    writeln!(f, "{name:<14}{:>8.1} {:>8.1}  {end}", took.as_secs_f64(), worked.as_secs_f64())
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<14}{:>8} {:>8}  in seconds", "step", "took", "worked")?;
        let count = |end: &str| self.rows.iter().filter(|row| row.end == end).count();
        let (passed, failed) = (count(PASSED), count(FAILED));
        let skipped = self.rows.iter().filter(|row| row.end.starts_with("skipped")).count();
        for row in &self.rows {
            line(f, row.name, row.took, row.worked, &row.end)?;
        }
        let sum = |of: fn(&Row) -> Duration| self.rows.iter().map(of).sum();
        line(f, "together", sum(|row| row.took), sum(|row| row.worked), "")?;
        writeln!(f)?;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}
