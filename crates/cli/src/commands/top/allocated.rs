//! `memreel top --allocated`: what each stack allocated, freed or not.

#![forbid(unsafe_code)]

use std::io;

use memreel_answers::Allocated;
use memreel_snapshot::analysis::DeviceHistory;

use super::{groups::print_groups, options::Options};
use crate::text::{Bytes, Page, count, print_text, print_warnings};

/// Prints the answer for one device: the sums of the whole run, or those of the events.
pub(super) fn print(
    options: &Options,
    history: &DeviceHistory<'_>,
    answer: &Allocated<'_>,
    out: &mut Page,
) -> io::Result<()> {
    let (bytes, blocks) = (Bytes(answer.allocated_bytes), count(answer.blocks, "block"));
    let of = if answer.is_of_run { "over the whole run" } else { "in the events of the file" };
    print_text(format!("{bytes} was allocated in {blocks} {of}"), out)?;
    if !answer.is_of_run {
        print_warnings(history, out)?;
    }
    let stacks = answer.stacks_of_run.as_ref().unwrap_or(history);
    print_groups(options, stacks, &answer.groups, answer.allocated_bytes, out)
}
