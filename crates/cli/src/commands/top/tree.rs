//! The tree of calls of `memreel top`.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel_snapshot::{
    analysis::{Branch, DeviceHistory},
    model::Frame,
};

use crate::text::{
    Bytes, Page, count,
    fit::{columns, fill},
    percent,
    sites::{call, figures, heading},
};

/// Prints a heading, and a line for each branch, with the chain of calls that share all of its bytes, shortened if it is long.
pub(super) fn print_branches(
    branches: &[Branch],
    history: &DeviceHistory<'_>,
    all_bytes: u64,
    out: &mut Page,
) -> io::Result<()> {
    let (stacks, no_stack) = (&history.snapshot().stacks, history.shown_frames().no_stack());
    let columns_of = figures("share", "bytes", "blocks");
    writeln!(out, "{}", heading(&columns_of, "the outermost call, and below it what it called", out))?;
    for line in branches.chunk_by(|_, next| next.continues) {
        let frames = line.iter().filter_map(|branch| branch.frame).map(|frame| stacks.frame(frame));
        let Branch { depth, bytes, n_blocks, .. } = line[0];
        let figures = figures(percent(bytes, all_bytes), Bytes(bytes), n_blocks) + "  ";
        // A deep branch keeps a part of the line for its calls.
        let indent = (2 * depth).min(out.width_left(columns(&figures)).saturating_sub(36)).min(80);
        let taken = columns(&figures) + indent;
        // The lines after the first have an indent, and calls an arrow.
        let mut pieces = chain(&frames.collect::<Vec<_>>(), out.width_left(taken + 4));
        if pieces.is_empty() {
            pieces.push(no_stack.to_owned());
        }
        let n_left_out = line.last().map_or(0, |branch| branch.n_left_out);
        if n_left_out > 0 {
            pieces.push(format!("→ {} left out", count(n_left_out, "deeper call")));
        }
        let lines = fill(&pieces, out.width_left(taken), out.width_left(taken + 2));
        let blank = " ".repeat(taken + 2);
        writeln!(out, "{figures}{:indent$}{}", "", lines.join(&format!("\n{blank}")))?;
    }
    Ok(())
}

/// Returns the pieces of a chain of calls, of at most `room` columns; of a long one, the first and the last call.
fn chain(calls: &[&Frame], room: usize) -> Vec<String> {
    const CALLS: usize = 4;
    let n = calls.len();
    let shown: Vec<usize> = if n > CALLS { vec![0, n - 1] } else { (0..n).collect() };
    let mut pieces = Vec::new();
    for at in shown {
        if n > CALLS && at > 0 {
            pieces.push(format!("→ {} more", n - 2));
        }
        let mut call = call(calls[at], room);
        for (line_at, line) in call.iter_mut().enumerate().filter(|_| at > 0) {
            line.insert_str(0, if line_at == 0 { "→ " } else { "  " });
        }
        pieces.append(&mut call);
    }
    pieces
}
