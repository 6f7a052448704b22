//! Prints the causes of a failed request as a list, each with its advice.

#![forbid(unsafe_code)]

use std::io;

use memreel_snapshot::analysis::{
    DeviceHistory,
    oom::{Cause, Explanation},
};

use crate::{
    options::moment,
    text::{Bytes, Page, clean, print_text, print_wrapped},
};

/// Prints causes, each with its advice. The kind of the first is in the line above it.
pub(super) fn print_list(causes: &[Cause], out: &mut Page) -> io::Result<()> {
    (1..).zip(causes).try_for_each(|(number, cause)| print_cause(number, cause, out))
}

/// Prints a cause with its place in the list, and its advice.
pub(super) fn print_cause(number: usize, cause: &Cause, out: &mut Page) -> io::Result<()> {
    let kind = if number == 1 { String::new() } else { format!("{}: ", cause.kind.name()) };
    let text = format!("{number}. {kind}{}", clean(&cause.finding));
    print_wrapped(&text, 3, out)?;
    match &cause.advice {
        Some(advice) => print_wrapped(&format!("   {}", clean(advice)), 3, out),
        None => Ok(()),
    }
}

/// Prints which request failed, and at most `n` of its causes.
pub(crate) fn print_causes(
    history: &DeviceHistory<'_>,
    explanation: &Explanation<'_, '_>,
    n: usize,
    out: &mut Page,
) -> io::Result<()> {
    print_failure(history, explanation, out)?;
    let causes = explanation.causes();
    print_list(&causes[..causes.len().min(n)], out)
}

/// Prints which request failed.
pub(super) fn print_failure(
    history: &DeviceHistory<'_>,
    explanation: &Explanation<'_, '_>,
    out: &mut Page,
) -> io::Result<()> {
    let (red, report) = (out.red(), explanation.report());
    let step = explanation.step().map_or_else(String::new, |step| format!(" {}", clean(&step)));
    let moment = report.totals.moment;
    let when = match moment.entry() {
        Some(entry) if moment == history.end() => format!("at the last event ({entry})"),
        _ => moment::words(history, moment),
    };
    let text = format!(
        "{red}out of memory{step} (cause: {}){red:#}: a request for {} failed {when}",
        explanation.causes()[0].kind.name(),
        Bytes(report.requested_bytes),
    );
    print_text(text, out)
}
