//! `memreel top`: what holds the memory.

#![forbid(unsafe_code)]

mod allocated;
mod groups;
mod new_blocks;
mod options;
mod tree;

use std::io;

use memreel_answers::{AllocatedQuestion, At, Holders, NewBlocksQuestion, Question, Top, TopQuestion};
use memreel_snapshot::analysis::{By, DeviceHistory, Group, Totals};

use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opener, each_device},
    options::moment::{self, of_the_last},
    text::{Bytes, Page, count, of_it_pending, print_text, print_warnings},
};

use groups::print_groups;
use tree::print_branches;

pub(crate) use options::Options;

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    let (at, by, n) = (options.at, options.by.by(), options.listing.n);
    each_device(&options.input, opener, out, |asked, out| {
        let (subject, history, is_json) = (asked.subject(), asked.history(), options.input.json);
        if options.allocated {
            let answer = AllocatedQuestion { n }.ask(subject)?;
            match is_json {
                true => asked.print_answer(&answer, out)?,
                false => allocated::print(options, history, &answer, out)?,
            }
        } else if options.new {
            let answer = NewBlocksQuestion { since: options.since, at, by, n }.ask(subject)?;
            match is_json {
                true => asked.print_answer(&answer, out)?,
                false => new_blocks::print(options, history, &answer, out)?,
            }
        } else {
            let answer = TopQuestion { at, by, is_tree: options.tree, n }.ask(subject)?;
            match is_json {
                true => asked.print_answer(&answer, out)?,
                false => print(options, history, &answer, out)?,
            }
        }
        Ok(Exit::Fine)
    })
}

fn print(options: &Options, history: &DeviceHistory<'_>, top: &Top<'_>, out: &mut Page) -> io::Result<()> {
    let totals = &top.totals;
    let head = match top.earlier {
        Some(peak) => format!("peak: {}", moment::earlier(history, peak)),
        None => head(options.at, history, totals),
    };
    print_text(head, out)?;
    print_warnings(history, out)?;
    let stacks = top.earlier_stacks.as_ref().unwrap_or(history);
    match &top.holders {
        Holders::Tree { tree } => print_branches(tree.branches(), stacks, totals.active_bytes, out),
        Holders::Groups { groups, .. } => {
            // Device memory is not in blocks, and is larger than they are.
            let is_of_segments = options.by.by() == By::Owner && top.earlier.is_none();
            let all_bytes = if is_of_segments { Group::sum(groups.all()).0 } else { totals.active_bytes };
            print_groups(options, stacks, groups, all_bytes, out)
        }
        _ => Ok(()),
    }
}

fn head(at: At, history: &DeviceHistory<'_>, totals: &Totals) -> String {
    let trust = history.trust();
    let peak = match at {
        At::Peak if trust.knows_peak() => "peak: ".to_owned(),
        At::Peak => format!("peak {}: ", of_the_last(&trust)),
        _ => String::new(),
    };
    format!(
        "{peak}{} in use in {} {}, {} reserved{}",
        Bytes(totals.active_bytes),
        count(totals.n_blocks, "block"),
        moment::words(history, totals.moment),
        Bytes(totals.reserved_bytes),
        of_it_pending(totals, history.device()),
    )
}
