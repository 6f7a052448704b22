//! Prints the text of `memreel replay`: the answer of a sweep, a table, and the requests that failed.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel::whatif::{FailedRequest, ReplayAnswer, Requests};
use memreel_snapshot::{
    Snapshot,
    analysis::{MarkedFrame, ShownFrames, Site},
};

use super::results::{Shared, distinct, each, name};
use crate::text::{
    Bytes, Page, Sites, Table,
    bytes::{exact, signed},
    clean, count, print_text,
};

/// The answers for one device, and the facts about them.
pub(super) struct Report<'a> {
    pub(super) file: &'a str,
    pub(super) snapshot: &'a Snapshot,
    pub(super) requests: &'a Requests,
    pub(super) answers: &'a [ReplayAnswer],
    /// The most rows of a sweep; `None` is no sweep.
    pub(super) n_rows: Option<usize>,
    /// The given limit.
    pub(super) limit_bytes: Option<u64>,
    /// How the program is changed, in words.
    pub(super) changes: &'a [String],
    /// The most calls of a stack.
    pub(super) n_calls: usize,
}

impl Report<'_> {
    pub(super) fn print(&self, out: &mut Page) -> io::Result<()> {
        let recorded = self.requests.recorded();
        let text = format!(
            "{}, device {}: {}, recorded {}, with a peak of {} reserved and {}",
            clean(self.file),
            self.requests.device(),
            count(self.requests.len(), "request"),
            match self.snapshot.allocator_settings() {
                Some(_) if recorded.conf().is_empty() => "with default settings".to_owned(),
                Some(_) => format!("under {}", clean(recorded.conf())),
                None => "under settings that are not in the file".to_owned(),
            },
            Bytes(recorded.reserved_peak_bytes),
            count(recorded.num_ooms, "out-of-memory error"),
        );
        print_text(text, out)?;
        let warnings = self.requests.warnings().iter();
        warnings
            .into_iter()
            .try_for_each(|warning| print_text(format!("warning: {}", clean(warning)), out))?;
        print_text(baseline(self.requests), out)?;
        if let Some(limit) = self.limit() {
            print_text(limit, out)?;
        }
        if !self.changes.is_empty() {
            print_text(format!("replayed {}", clean(&self.changes.join(", "))), out)?;
        }
        let n_emptied = self.requests.num_empty_cache();
        if n_emptied > 0 {
            let times = count(n_emptied, "time");
            print_text(format!("the program emptied its cache {times}, and so does each replay"), out)?;
        }
        let rows = match self.n_rows {
            Some(_) => distinct(self.answers, recorded.usable_conf()),
            None => each(self.answers),
        };
        let replayed = rows.iter().find(|row| row.has(recorded.usable_conf())).map(Shared::first);
        if self.n_rows.is_some() {
            self.conclusion(&rows, out)?;
        }
        let replayed = replayed.filter(|_| self.changes.is_empty());
        if let Some(difference) = replayed.and_then(|replayed| self.difference(replayed)) {
            print_text(difference, out)?;
        }
        let shown = self.shown(&rows);
        if self.n_rows.is_some() {
            let n = count(self.answers.len(), "setting");
            let n_rows = count(rows.len(), "different result");
            let rest = if shown.len() < rows.len() { " (use -n to show more)" } else { "" };
            print_text(format!("{n} gave {n_rows}, best first{rest}:"), out)?;
        }
        writeln!(out)?;
        self.table(&shown).print(out)?;
        for answer in rows.iter().map(Shared::first).filter(|answer| answer.outcome.n_priors_refused > 0) {
            let n = answer.outcome.n_priors_refused;
            let text = format!("{}: no room for {}", name(&answer.conf), count(n, "pre-existing block"));
            writeln!(out)?;
            print_text(text, out)?;
        }
        self.failures(&rows, out)
    }

    /// Returns the printed rows: the first ones, of which the last makes room for the recorded setting.
    fn shown<'r, 'a>(&self, rows: &'r [Shared<'a>]) -> Vec<&'r Shared<'a>> {
        let n = self.n_rows.unwrap_or(usize::MAX).clamp(1, rows.len().max(1));
        let mut shown: Vec<_> = rows.iter().take(n).collect();
        let conf = self.requests.recorded().usable_conf();
        if let Some(recorded) = rows.iter().skip(n).find(|row| row.has(conf))
            && n > 1
        {
            shown[n - 1] = recorded;
        }
        shown
    }

    /// Returns the limit that the recorded run met; `None` if it met none, or if another is given.
    fn limit(&self) -> Option<String> {
        let found = self.requests.could_hold().filter(|_| self.limit_bytes.is_none())?;
        let (limit, exactly) = (Bytes(found.at_least_bytes), exact(found.at_least_bytes));
        let known = match (found.at_least_bytes < found.at_most_bytes, found.is_limit) {
            (false, _) => {
                "the most that the recorded run was able to reserve when a request failed".to_owned()
            }
            (true, true) => format!(
                "a request failed although the device had more memory free, so the process must have had a \
                 limit between {limit} and {}",
                Bytes(found.at_most_bytes)
            ),
            (true, false) => format!(
                "the device was full and left between {limit} and {} to the recorded run",
                Bytes(found.at_most_bytes)
            ),
        };
        Some(format!("limit: {limit}; {known} (same as --limit {exactly}; use --limit to change it)"))
    }

    /// Prints which setting is the best, what it saves, and what it costs.
    fn conclusion(&self, rows: &[Shared<'_>], out: &mut Page) -> io::Result<()> {
        let conf = self.requests.recorded().usable_conf();
        let Some(row) = rows.first() else { return Ok(()) };
        let best = row.first();
        let before = rows.iter().find(|row| row.has(conf)).unwrap_or(row).first();
        let bold = out.bold();
        let name = format!("best: {bold}{}{bold:#}", name(&best.conf));
        writeln!(out)?;
        if row.has(conf) {
            let peak = |answer: &ReplayAnswer| (answer.outcome.num_ooms, answer.outcome.reserved_peak_bytes);
            let others = match rows.iter().any(|row| peak(row.first()) < peak(best)) {
                true => "what another one would save depends on the addresses that the device returns",
                false => "no other setting needs less",
            };
            print_text(format!("{name}, the recorded setting; {others}"), out)?;
        } else {
            // Under another limit the recorded peak is not a measure.
            let recorded_bytes =
                self.limit_bytes.is_none().then_some(self.requests.recorded().reserved_peak_bytes);
            print_text(format!("{name} {}", compared(best, before, recorded_bytes)), out)?;
        }
        if rows.iter().all(|row| row.first().worst_num_ooms() > 0) {
            print_text("no setting that was tried satisfies every request", out)?;
        }
        if let Some(line) = self.requests.recorded().reader().line(&best.conf).filter(|_| !row.has(conf)) {
            writeln!(out, "  {line}")?;
        }
        Ok(())
    }

    /// Returns how the replay of the recorded setting differs from the recorded run because of a limit.
    fn difference(&self, replayed: &ReplayAnswer) -> Option<String> {
        let limit = self.limit_bytes?;
        let [peak, recorded_peak] =
            [replayed.outcome.reserved_peak_bytes, self.requests.recorded().reserved_peak_bytes];
        (limit < recorded_peak && peak != recorded_peak).then(|| {
            format!(
                "recorded: {}; replayed under the recorded setting: {}, because of --limit {}",
                Bytes(recorded_peak),
                Bytes(peak),
                exact(limit)
            )
        })
    }

    fn table(&self, rows: &[&Shared<'_>]) -> Table {
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
            let is_recorded =
                answer.switch.is_none() && answer.conf == self.requests.recorded().usable_conf();
            let mark = if is_recorded && rows.len() > 1 { " (recorded setting)" } else { "" };
            table.row(vec![
                format!("{}{mark}", full_name(answer)),
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
                table.note(format!("same result: {}", others.join(" and ")));
            }
        }
        table
    }

    /// Prints the first request that failed under each setting; settings with the same one are combined. In a sweep,
    /// only the best setting and the recorded one count.
    fn failures(&self, rows: &[Shared<'_>], out: &mut Page) -> io::Result<()> {
        let conf = self.requests.recorded().usable_conf();
        let (shown, others): (Vec<_>, Vec<_>) = rows
            .iter()
            .enumerate()
            .partition(|(place, row)| self.n_rows.is_none() || *place == 0 || row.has(conf));
        let mut failures: Vec<(FailedRequest, Vec<String>)> = Vec::new();
        for answer in shown.iter().map(|(_, row)| row.first()) {
            let Some(oom) = answer.outcome.first_oom else { continue };
            match failures.iter_mut().find(|(known, _)| *known == oom) {
                Some((_, confs)) => confs.push(full_name(answer)),
                None => failures.push((oom, vec![full_name(answer)])),
            }
        }
        failures.into_iter().try_for_each(|(oom, confs)| self.failure(oom, &confs, out))?;
        let n = others.iter().filter(|(_, row)| row.first().outcome.num_ooms > 0).count();
        if n > 0 {
            writeln!(out)?;
            let n = count(n, "other result");
            print_text(
                format!(
                    "{n} with failed requests; use --conf SETTING to see the first failed request and its stack"
                ),
                out,
            )?;
        }
        Ok(())
    }

    fn failure(&self, oom: FailedRequest, confs: &[String], out: &mut Page) -> io::Result<()> {
        let FailedRequest { request, entry, size_bytes, .. } = oom;
        writeln!(out)?;
        print_text(format!("under {}:", confs.join(" or ")), out)?;
        let size = Bytes(size_bytes);
        let text = format!("out of memory at request {request} (event {entry}), {size} ({size_bytes} bytes)");
        let Some(stack) = self.snapshot.trace(self.requests.device())[entry].stack else {
            return print_text(text, out);
        };
        print_text(text, out)?;
        let sites = Sites::of(ShownFrames::new(self.snapshot), self.n_calls);
        writeln!(out, "{}", sites.row("  requested by", &Site::Stack(stack), out))
    }
}

/// Returns how the replay of the recorded setting compares with the recorded run.
fn baseline(requests: &Requests) -> String {
    let baseline = requests.baseline();
    let (recorded, confidence) = (Bytes(baseline.recorded_peak_bytes), baseline.confidence());
    let peak = match baseline.peak_bytes == baseline.recorded_peak_bytes {
        true => format!("the replay reproduces the recorded peak of {recorded}"),
        false => {
            format!("the replay peaks at {} instead of the recorded {recorded}", Bytes(baseline.peak_bytes))
        }
    };
    let deviation = match (baseline.deviation_bytes, baseline.deviation_entry) {
        (0, _) => "and every change in reserved memory".to_owned(),
        (bytes, entry) => {
            let (bytes, percent) = (signed(bytes.into()), baseline.deviation_percent());
            let at = entry.map_or("at the start".to_owned(), |entry| format!("at event {entry}"));
            format!("with a largest deviation of {percent:+.1} % ({bytes}) {at}")
        }
    };
    format!("baseline: {peak} {deviation}; confidence: {confidence}")
}

/// Returns the setting of an answer as it is shown, with the one that replaces it.
fn full_name(answer: &ReplayAnswer) -> String {
    let first = name(&answer.conf);
    match &answer.switch {
        Some(switch) => format!("{first}, from event {} {}", switch.entry, name(&switch.conf)),
        None => first.to_owned(),
    }
}

/// Returns a setting after "under", or words for the default settings.
fn under(conf: &str) -> String {
    if conf.is_empty() { "with the default settings".to_owned() } else { format!("under {conf}") }
}

/// Compares the best answer with that of the recorded setting: what failed, what is reserved, and the calls to the
/// device. A recorded peak that is not that of the replay comes first.
fn compared(best: &ReplayAnswer, before: &ReplayAnswer, recorded_bytes: Option<u64>) -> String {
    let under = under(&before.conf);
    let [(peak, n_failed, calls), old] = [best, before].map(|answer| {
        let outcome = &answer.outcome;
        let calls = (outcome.num_device_alloc, outcome.num_device_free);
        (outcome.reserved_peak_bytes, outcome.num_ooms, calls)
    });
    let served = match n_failed {
        n if n == old.1 => String::new(),
        0 => format!("satisfies every request, including {} that failed {under}, and ", old.1),
        n => format!("lets {} fail instead of {} {under}, and ", count(n, "request"), old.1),
    };
    let under = if served.is_empty() { format!(" {under}") } else { String::new() };
    #[allow(clippy::cast_precision_loss)]
    let percent = |of: u64| format!("({:+.1} %)", (peak as f64 / of.max(1) as f64 - 1.0) * 100.0);
    let replayed = format!("{}{under} {}", Bytes(old.0), percent(old.0));
    let instead = match recorded_bytes.filter(|recorded| *recorded != old.0) {
        Some(recorded) => {
            format!("the recorded {} {} or the replayed {replayed}", Bytes(recorded), percent(recorded))
        }
        None => replayed,
    };
    let calls = match (calls, old.2) {
        (calls, old) if calls == old => String::new(),
        ((allocs, frees), old) => {
            let (allocs, frees) = (count(allocs, "device alloc"), count(frees, "device free"));
            format!(", with {allocs} and {frees} instead of {} and {}", old.0, old.1)
        }
    };
    format!("{served}reserves {} instead of {instead}{calls}", Bytes(peak))
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
