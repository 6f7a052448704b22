//! `memreel top`: what holds the memory.

#![forbid(unsafe_code)]

mod allocated;
mod groups;
mod new_blocks;
mod options;

use std::io::{self, Write};

use memreel_snapshot::{
    Snapshot,
    analysis::{Branch, DeviceHistory, Totals},
    model::Frame,
};
use serde::Serialize;

use crate::{
    bytes::Bytes,
    each::{Asked, each_device},
    exit::Exit,
    failure::Failure,
    fit::{columns, fill, print_text},
    json::{self, List, WithList},
    moment::{self, At},
    sites::{Sites, call, figures, heading, sum},
    text::{count, of_it_pending, percent},
    warnings::print_warnings,
    width::width_left,
};
use groups::print_groups;
use options::Grouping;

pub(crate) use options::Options;

pub(crate) fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    each_device(&options.input, out, |asked, out| {
        let history = asked.history();
        if options.allocated {
            return allocated::answer(options, asked, out);
        }
        if options.new {
            return new_blocks::answer(options, asked, out);
        }
        let totals = history.totals_at(options.at.moment(history)?);
        let sites = Sites::new(history, options.listing.calls());
        if options.input.json {
            print_object(options, asked, &totals, out)?;
        } else {
            head(options, history, &totals, out)?;
            body(options, history, &totals, &sites, out)?;
        }
        Ok(Exit::Fine)
    })
}

fn print_object(
    options: &Options,
    asked: &Asked<'_>,
    totals: &Totals,
    out: &mut impl Write,
) -> io::Result<()> {
    let history = asked.history();
    let mut head = json::figures(totals);
    head["is_exact"] = history.trust().is_exact().into();
    head["is_whole"] = history.trust().is_whole().into();
    if options.tree {
        let frame = |branch: &Branch| branch.frame.map(|frame| history.snapshot().stacks.frame(frame));
        let branches = history.tree(totals.moment, totals.active_bytes / 100);
        let lines: Vec<Line<'_>> = branches
            .iter()
            .map(|branch| Line {
                depth: branch.depth,
                frame: frame(branch),
                bytes: branch.bytes,
                blocks: branch.n_blocks,
                calls_left_out: branch.n_left_out,
            })
            .collect();
        return asked.print_json(&WithList { head, list: List("tree", &lines), rest: () }, out);
    }
    let groups = history.top(totals.moment, options.by.by());
    asked.print_list(head, "groups", &groups, options.listing.n, |group| group.bytes, out)
}

/// A line of the tree.
#[derive(Serialize)]
struct Line<'a> {
    depth: usize,
    frame: Option<&'a Frame>,
    bytes: u64,
    blocks: usize,
    #[serde(skip_serializing_if = "is_zero")]
    calls_left_out: usize,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

fn head(
    options: &Options,
    history: &DeviceHistory<'_>,
    totals: &Totals,
    out: &mut impl Write,
) -> io::Result<()> {
    let peak = if options.at == At::Peak { "peak: " } else { "" };
    let text = format!(
        "{peak}{} in use in {} {}, {} reserved{}",
        Bytes(totals.active_bytes),
        count(totals.n_blocks, "block"),
        moment::words(history, totals.moment),
        Bytes(totals.reserved_bytes),
        of_it_pending(totals),
    );
    print_text(text, out)?;
    print_warnings(history, out)
}

fn body(
    options: &Options,
    history: &DeviceHistory<'_>,
    totals: &Totals,
    sites: &Sites<'_>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let (moment, all_bytes) = (totals.moment, totals.active_bytes);
    if options.tree {
        let figures = figures("share", "bytes", "blocks");
        writeln!(out, "{}", heading(&figures, "the outermost call, and indented what it called"))?;
        print_tree(&history.tree(moment, all_bytes / 100), history.snapshot(), all_bytes, out)?;
        return Ok(());
    }
    let groups = history.top(moment, options.by.by());
    // What is held from the device is not of blocks, and has more bytes than they.
    let is_of_segments = matches!(options.by, Grouping::Owner);
    let all_bytes = if is_of_segments { sum(&groups).0 } else { all_bytes };
    print_groups(options, history, &groups, all_bytes, sites, out)?;
    Ok(())
}

/// Prints a line for each branch, with the chain of calls that share all of its bytes, shortened if it is long.
fn print_tree(
    branches: &[Branch],
    snapshot: &Snapshot,
    all_bytes: u64,
    out: &mut impl Write,
) -> io::Result<()> {
    for line in branches.chunk_by(|_, next| next.continues) {
        let frames = line.iter().filter_map(|branch| branch.frame).map(|frame| snapshot.stacks.frame(frame));
        let Branch { depth, bytes, n_blocks, .. } = line[0];
        let figures = figures(percent(bytes, all_bytes), Bytes(bytes), n_blocks) + "  ";
        // A deep branch keeps a part of the line for its calls.
        let indent = (2 * depth).min(width_left(columns(&figures)).saturating_sub(36)).min(80);
        let taken = columns(&figures) + indent;
        // The lines after the first have an indent, and calls an arrow.
        let mut pieces = chain(&frames.collect::<Vec<_>>(), width_left(taken + 4));
        let n_left_out = line.last().map_or(0, |branch| branch.n_left_out);
        if n_left_out > 0 {
            pieces.push(format!("→ {} left out", count(n_left_out, "deeper call")));
        }
        let lines = fill(&pieces, width_left(taken), width_left(taken + 2));
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
    if pieces.is_empty() { vec!["(no stack)".to_owned()] } else { pieces }
}
