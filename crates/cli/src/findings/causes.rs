//! The causes of a failed request as a list, each with its advice.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel_snapshot::analysis::oom::Cause;

use crate::text::{clean, fit::wrapped};

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
