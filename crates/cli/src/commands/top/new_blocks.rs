//! `memreel top --new`: what is allocated after a time, counted in the order of the program's requests.

#![forbid(unsafe_code)]

use std::io;

use memreel_answers::{At, NewBlocksAt};
use memreel_snapshot::{
    analysis::{DeviceHistory, NewBlocks},
    history::Moment,
};

use super::{groups::print_groups, options::Options};
use crate::{
    options::moment::words,
    text::{Bytes, Page, count, print_text},
};

/// Prints the answer for one device: the figures, and the blocks of one moment.
pub(super) fn print(
    options: &Options,
    history: &DeviceHistory<'_>,
    answer: &NewBlocksAt<'_>,
    out: &mut Page,
) -> io::Result<()> {
    print_text(head(options.at, history, answer), out)?;
    if !answer.new.is_complete {
        print_text("warning: the oldest events are lost; what they allocated is not counted", out)?;
    }
    // What existed before the history does not matter.
    for warning in &answer.warnings {
        print_text(format!("warning: {warning}"), out)?;
    }
    print_groups(options, history, &answer.groups, answer.allocated_bytes, out)
}

fn head(at: At, history: &DeviceHistory<'_>, answer: &NewBlocksAt<'_>) -> String {
    let NewBlocks { since, peak, peak_bytes, n_at_peak, left_bytes, n_left, .. } = answer.new;
    let of = if since == Moment::START { "" } else { &format!(" since event {}", since.n_entries()) };
    let peak = format!(
        "{} allocated{of} and held in {} at the peak, {}; {} in {} is left at the end",
        Bytes(peak_bytes),
        count(n_at_peak, "block"),
        words(history, peak),
        Bytes(left_bytes),
        count(n_left, "block"),
    );
    match at {
        At::Peak | At::End => peak,
        _ => {
            let (bytes, blocks) = (Bytes(answer.allocated_bytes), count(answer.blocks, "block"));
            format!("{peak}; {bytes} in {blocks} {}", words(history, answer.event))
        }
    }
}
