//! Prints the causes of a failed request as a list, each with its advice.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel_snapshot::analysis::{
    DeviceHistory,
    oom::{Cause, Explanation},
};

use crate::{
    options::moment,
    text::{Bytes, clean, print_text, red, wrapped},
};

/// Prints causes, each with its advice. The kind of the first is in the line above it.
pub(super) fn print_list(causes: &[Cause], out: &mut impl Write) -> io::Result<()> {
    for (number, cause) in (1..).zip(causes) {
        let kind = if number == 1 { String::new() } else { format!("{}: ", cause.kind.name()) };
        let text = format!("{number}. {kind}{}", clean(&cause.finding));
        writeln!(out, "{}", wrapped(&text, 3))?;
        if let Some(advice) = &cause.advice {
            writeln!(out, "{}", wrapped(&format!("   {}", clean(advice)), 3))?;
        }
    }
    Ok(())
}

/// Prints which request failed, and at most `n` of its causes.
pub(crate) fn print_causes(
    history: &DeviceHistory<'_>,
    explanation: &Explanation<'_, '_>,
    n: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let (red, report, causes) = (red(), explanation.report(), explanation.causes());
    let step = explanation.step().map_or_else(String::new, |step| format!(" {}", clean(&step)));
    let text = format!(
        "{red}out of memory{step} (cause: {}){red:#}: a request for {} failed {}",
        causes[0].kind.name(),
        Bytes(report.requested_bytes),
        moment::words(history, report.totals.moment),
    );
    print_text(text, out)?;
    print_list(&causes[..causes.len().min(n)], out)
}
