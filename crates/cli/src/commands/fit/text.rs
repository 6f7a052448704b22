//! The text of `memreel fit`: the largest size, a table of sizes, and why a guess may be wrong.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel::{
    fit::{Interval, Largest, Prediction},
    whatif::FailedRequest,
};
use memreel_snapshot::{
    analysis::{DeviceHistory, Made, Site},
    history::Confidence,
};

use super::answer::Answer;
use crate::text::{Bytes, Page, Sites, Table, print_text};

/// The most calls of the stack of the request that fails.
const N_CALLS: usize = 4;

pub(super) struct Report<'a> {
    pub(super) answer: &'a Answer<'a>,
}

impl Report<'_> {
    pub(super) fn print(&self, out: &mut Page) -> io::Result<()> {
        let answer = self.answer;
        if let (Some(largest), Some(limit)) = (&answer.largest, answer.limit_bytes) {
            self.largest(largest, limit, out)?;
            self.best(out)?;
            print_text(self.beside(), out)?;
            writeln!(out)?;
        }
        self.table().print(out)?;
        for check in answer.sizes.checks() {
            let [predicted, recorded] =
                [&check.predicted, &check.recorded].map(|of| of.reserved_peak_bytes.bytes);
            let size = answer.runs.words(check.recorded.size);
            let percent = deviation_percent(predicted, recorded);
            print_text(format!("check: {size} predicted from the others is off by {percent:+.1} %"), out)?;
        }
        if let Some(of) = answer.predictions().next() {
            print_text(self.parts(of), out)?;
        }
        let mut doubts: Vec<String> = answer.predictions().flat_map(|of| self.doubts(of)).collect();
        doubts.dedup();
        doubts.iter().try_for_each(|doubt| print_text(doubt, out))
    }

    /// Returns what a device needs in addition to the limit.
    fn beside(&self) -> String {
        let what = "note: the CUDA context, NCCL and other processes need memory in addition to the limit";
        match self.answer.beside {
            Some((size, bytes)) => {
                let (size, bytes) = (self.answer.runs.words(size), Bytes(bytes));
                format!("{what}: {bytes} in this process, in the run of {size}")
            }
            None => format!("{what}; how much they use is not in these files"),
        }
    }

    fn largest(&self, largest: &Largest, limit: u64, out: &mut Page) -> io::Result<()> {
        let (bold, limit) = (out.bold(), Bytes(limit));
        let mut conf = match self.answer.sizes.conf() {
            "" => String::new(),
            conf => format!(" under {conf}"),
        };
        self.answer.changes.iter().for_each(|change| conf.extend([" ", change]));
        let none = match self.answer.step.get() {
            1 => "no size".to_owned(),
            step => format!("no multiple of {step}"),
        };
        let what = match &largest.fits {
            None => none,
            Some(fits) => self.answer.runs.words(fits.size),
        };
        let then = match (&largest.fits, &largest.fails) {
            (Some(_), None) => ", and nothing depends on the size: are two files identical?".to_owned(),
            (Some(fits), Some(_)) => peak(fits),
            (None, _) => String::new(),
        };
        print_text(format!("{bold}{what} fits{bold:#} in {limit}{conf}{then}"), out)?;
        match &largest.fails {
            Some(fails) => self.failure(fails, out),
            None => Ok(()),
        }
    }

    /// Prints the request that fails at a size, and its caller.
    fn failure(&self, fails: &Prediction, out: &mut Page) -> io::Result<()> {
        let Some(FailedRequest { size_bytes, entry, .. }) = fails.failure else { return Ok(()) };
        let words = self.answer.runs.words(fails.size);
        print_text(format!("{words} does not fit: a request for {} fails", Bytes(size_bytes)), out)?;
        let Some(snapshot) = self.answer.runs.snapshot(fails.nearest) else { return Ok(()) };
        let history = DeviceHistory::new(snapshot, self.answer.device);
        let Some(stack) = history.entries()[entry].stack else { return Ok(()) };
        let sites = Sites::new(&history, N_CALLS);
        writeln!(out, "{}", sites.row("  requested by", &Site::Stack(stack), out))
    }

    fn best(&self, out: &mut Page) -> io::Result<()> {
        match &self.answer.best {
            Some((conf, Largest { fits: Some(fits), .. })) => {
                let size = self.answer.runs.words(fits.size);
                print_text(format!("{size} fits under {conf}{}", peak(fits)), out)
            }
            _ if self.answer.has_sweep => print_text("no setting in the grid allows a larger size", out),
            _ => Ok(()),
        }
    }

    fn table(&self) -> Table {
        let answer = self.answer;
        let mut table = Table::new(&[
            &*answer.runs.numbers().join(", "),
            "peak requested",
            "peak allocated",
            "peak reserved",
            "between",
            "confidence",
        ]);
        let recorded = answer.recorded.iter().map(|of| (of, true));
        let predicted = answer.predictions().map(|of| (of, false));
        let mut rows: Vec<(&Prediction, bool)> = recorded.chain(predicted).collect();
        rows.sort_by_key(|(of, _)| of.size);
        rows.dedup_by_key(|(of, _)| of.size);
        for (of, is_recorded) in rows {
            let bytes = |of: Interval| Bytes(of.bytes).to_string();
            let fails = of.failure.is_some();
            let of_run = |of| if fails { String::new() } else { bytes(of) };
            let Interval { at_least_bytes, at_most_bytes, .. } = of.reserved_peak_bytes;
            let has_bounds = !is_recorded && !fails;
            table.row(vec![
                answer.runs.numbers_of(of.size).iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
                bytes(of.requested_peak_bytes),
                of_run(of.allocated_peak_bytes),
                if fails { "fails".to_owned() } else { bytes(of.reserved_peak_bytes) },
                match has_bounds {
                    false => String::new(),
                    true if at_least_bytes == at_most_bytes => "both the same".to_owned(),
                    true => format!("{} and {}", Bytes(at_least_bytes), Bytes(at_most_bytes)),
                },
                match is_recorded {
                    false => of.confidence.to_string(),
                    true if answer.is_of_recordings() => "recorded".to_owned(),
                    true => "replayed".to_owned(),
                },
            ]);
        }
        table
    }

    /// Returns what the peak of a size consists of, in one sentence.
    fn parts(&self, of: &Prediction) -> String {
        let mut parts: Vec<String> = Vec::new();
        for part in &of.peak_parts {
            let what = part.made.map_or("of other calls", Made::name);
            parts.push(format!("{} {what}", Bytes(part.bytes)));
        }
        let constant = of.peak_parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.constant_bytes));
        let (size, constant) = (self.answer.runs.words(of.size), Bytes(constant));
        format!("at the peak of {size}: {}; {constant} of this is the same at every size", parts.join(", "))
    }

    /// Returns why a guess may be wrong, and which run would settle it.
    fn doubts(&self, of: &Prediction) -> Vec<String> {
        if of.confidence <= Confidence::High {
            return Vec::new();
        }
        let mut doubts = Vec::new();
        let size = self.answer.runs.words(of.size);
        let spread = of.reserved_peak_bytes.spread().max(of.requested_peak_bytes.spread());
        if spread > 0.03 {
            let what = "because of requests that follow no pattern, and because of the order of frees";
            doubts.push(format!("{size}: the peak may be {:.0} % off, {what}", spread * 100.0));
        }
        if of.alone_share > 0.03 {
            let what = "of the bytes are requested at one size but not at another";
            doubts.push(format!("{size}: {:.0} % {what}", of.alone_share * 100.0));
        }
        if of.times > 8.0 {
            doubts.push(format!("{size} is {:.0} times the size of the nearest run", of.times));
        }
        if !of.is_unanimous {
            doubts.push(format!("{size}: whether it fits depends on the order of frees"));
        }
        let nearest = self.answer.runs.words(of.nearest);
        doubts.push(format!("a run nearer to {size} than {nearest} would settle it"));
        doubts
    }
}

/// Returns what is reserved at the peak of a size that fits, with the confidence.
fn peak(fits: &Prediction) -> String {
    let released = match fits.num_alloc_retries {
        0 => "",
        _ => " after its cache is released",
    };
    format!(
        ", with {} reserved at the peak{released} ({})",
        Bytes(fits.reserved_peak_bytes.bytes),
        fits.confidence
    )
}

#[allow(clippy::cast_precision_loss)]
fn deviation_percent(predicted: u64, recorded: u64) -> f64 {
    (predicted as f64 - recorded as f64) * 100.0 / (recorded as f64).max(1.0)
}
