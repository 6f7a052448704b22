//! The text of `memreel replay`: the answer of a sweep, a table, and the requests that failed.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel::{
    Snapshot,
    analysis::{MarkedFrame, ShownFrames},
    whatif::{Answer, FailedRequest, Requests},
};

use super::results::{Shared, distinct, each, name};
use crate::{
    bytes::Bytes,
    colour::bold,
    fit::{broken, print_text},
    table::Table,
    text::count,
    width::width_left,
};

/// The answers for one device, and what is known of them.
pub(super) struct Report<'a> {
    pub(super) file: &'a str,
    pub(super) snapshot: &'a Snapshot,
    pub(super) requests: &'a Requests,
    pub(super) answers: &'a [Answer],
    pub(super) warnings: Vec<String>,
    pub(super) is_sweep: bool,
}

impl Report<'_> {
    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let recorded = self.requests.recorded();
        let text = format!(
            "{}, device {}: {}, recorded under {} with a peak of {} reserved and {}",
            self.file,
            self.requests.device(),
            count(self.requests.len(), "request"),
            name(recorded.conf()),
            Bytes(recorded.reserved_peak_bytes),
            count(recorded.num_ooms, "out-of-memory error"),
        );
        print_text(text, out)?;
        self.warnings.iter().try_for_each(|warning| print_text(format!("warning: {warning}"), out))?;
        let rows = match self.is_sweep {
            true => distinct(self.answers, recorded.usable_conf()),
            false => each(self.answers),
        };
        if self.is_sweep {
            self.conclusion(&rows, out)?;
        }
        writeln!(out)?;
        self.table(&rows).print(out)?;
        for answer in rows.iter().map(Shared::first).filter(|answer| answer.outcome.n_priors_refused > 0) {
            let n = answer.outcome.n_priors_refused;
            let text = format!("{}: no room for {}", name(&answer.conf), count(n, "pre-existing block"));
            writeln!(out)?;
            print_text(text, out)?;
        }
        self.failures(&rows, out)
    }

    /// Prints which setting is the best, what it saves, and what it costs.
    fn conclusion(&self, rows: &[Shared<'_>], out: &mut impl Write) -> io::Result<()> {
        let conf = self.requests.recorded().usable_conf();
        let Some(row) = rows.first() else { return Ok(()) };
        let best = row.first();
        let before = rows.iter().find(|row| row.has(conf)).unwrap_or(row).first();
        let bold = bold();
        let name = format!("best: {bold}{}{bold:#}", name(&best.conf));
        writeln!(out)?;
        if row.has(conf) {
            print_text(format!("{name}, the recorded setting; no other needs less"), out)?;
        } else {
            print_text(format!("{name} {}", compared(best, before)), out)?;
        }
        if best.outcome.num_ooms > 0 {
            print_text("no setting that was tried serves every request", out)?;
        }
        if !row.has(conf) && !best.conf.is_empty() {
            writeln!(out, "  PYTORCH_ALLOC_CONF={}", best.conf)?;
        }
        let n = count(self.answers.len(), "setting");
        print_text(format!("{n} gave {}; the best is first:", count(rows.len(), "different result")), out)
    }

    fn table(&self, rows: &[Shared<'_>]) -> Table {
        let mut table = Table::new(&[
            "setting",
            "peak reserved",
            "worst case",
            "peak allocated",
            "unused at peak",
            "device allocs",
            "device frees",
            "retries",
            "OOMs",
            "first OOM",
        ]);
        for row in rows {
            let answer = row.first();
            let outcome = &answer.outcome;
            let is_recorded = answer.conf == self.requests.recorded().usable_conf();
            let mark = if is_recorded && rows.len() > 1 { " (recorded)" } else { "" };
            table.row(vec![
                format!("{}{mark}", name(&answer.conf)),
                Bytes(outcome.reserved_peak_bytes).to_string(),
                Bytes(answer.spread().highest_bytes).to_string(),
                Bytes(outcome.allocated_peak_bytes).to_string(),
                Bytes(outcome.waste_at_peak_bytes).to_string(),
                outcome.num_device_alloc.to_string(),
                outcome.num_device_free.to_string(),
                outcome.num_alloc_retries.to_string(),
                outcome.num_ooms.to_string(),
                outcome.first_oom.map_or("-".to_owned(), |oom| oom.request.to_string()),
            ]);
            let others = row.others();
            if !others.is_empty() {
                table.note(format!("the same: {}", others.join(" and ")));
            }
        }
        table
    }

    /// Prints the first request that failed under each setting; settings under which it is the same one are put
    /// together.
    fn failures(&self, rows: &[Shared<'_>], out: &mut impl Write) -> io::Result<()> {
        let mut failures: Vec<(FailedRequest, Vec<&str>)> = Vec::new();
        for answer in rows.iter().map(Shared::first) {
            let Some(oom) = answer.outcome.first_oom else { continue };
            match failures.iter_mut().find(|(known, _)| *known == oom) {
                Some((_, confs)) => confs.push(name(&answer.conf)),
                None => failures.push((oom, vec![name(&answer.conf)])),
            }
        }
        failures.into_iter().try_for_each(|(oom, confs)| self.failure(oom, &confs, out))
    }

    fn failure(&self, oom: FailedRequest, confs: &[&str], out: &mut impl Write) -> io::Result<()> {
        let FailedRequest { request, entry, size_bytes, .. } = oom;
        writeln!(out)?;
        print_text(format!("under {}:", confs.join(" or ")), out)?;
        let size = Bytes(size_bytes);
        print_text(
            format!("out of memory at request {request} (event {entry}), {size} ({size_bytes} bytes):"),
            out,
        )?;
        let stack = failed_stack(self.snapshot, self.requests, oom);
        for frame in stack.iter().filter(|frame| frame.is_shown).map(|marked| marked.frame) {
            let text = format!("{} ({}:{})", frame.name, frame.filename, frame.line);
            let lines = broken(&text, width_left(6));
            writeln!(out, "    {}", lines.join("\n      "))?;
        }
        Ok(())
    }
}

/// Compares the best answer with the one before: what failed, what is reserved, and the calls to the device.
fn compared(best: &Answer, before: &Answer) -> String {
    let under = name(&before.conf);
    let [(peak, n_failed, n_calls), old] = [best, before].map(|answer| {
        let outcome = &answer.outcome;
        (outcome.reserved_peak_bytes, outcome.num_ooms, outcome.num_device_calls())
    });
    let served = match n_failed {
        n if n == old.1 => String::new(),
        0 => format!("serves every request, of which {} failed under {under}, and ", old.1),
        n => format!("fails {} instead of {} under {under}, and ", count(n, "request"), old.1),
    };
    let under = if served.is_empty() { format!(" under {under}") } else { String::new() };
    #[allow(clippy::cast_precision_loss)]
    let percent = (peak as f64 / old.0.max(1) as f64 - 1.0) * 100.0;
    let (peak, old_peak) = (Bytes(peak), Bytes(old.0));
    let calls = match n_calls {
        n if n == old.2 => String::new(),
        n => format!(", with {} instead of {}", count(n, "device call"), old.2),
    };
    format!("{served}needs {peak} reserved instead of {old_peak}{under} ({percent:+.1} %){calls}")
}

/// Returns all frames of a failed request.
pub(super) fn failed_stack<'a>(
    snapshot: &'a Snapshot,
    requests: &Requests,
    oom: FailedRequest,
) -> Vec<MarkedFrame<'a>> {
    let entry = &snapshot.trace(requests.device())[oom.entry];
    let shown = ShownFrames::new(snapshot);
    entry.stack.map(|stack| shown.marked(stack).collect()).unwrap_or_default()
}
