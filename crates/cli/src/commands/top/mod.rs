//! `memreel top`: what holds the memory.

#![forbid(unsafe_code)]

mod allocated;
mod earlier;
mod groups;
mod new_blocks;
mod options;
mod tree;

use std::io;

use memreel_snapshot::analysis::{DeviceHistory, Totals};

use crate::{
    exit::Exit,
    failure::Failure,
    input::{Opener, each::Asked, each_device},
    options::{
        At,
        moment::{self, of_the_last},
    },
    text::{
        Bytes, List, Page, Sites, WithList, count, of_it_pending, print_text, print_warnings, sites::sum,
    },
};
use groups::print_groups;
use options::Grouping;
use tree::{json_head, print_branches, tree_lines};

pub(crate) use options::Options;

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    each_device(&options.input, opener, out, |asked, out| {
        let history = asked.history();
        if options.allocated {
            return allocated::answer(options, asked, out);
        }
        if options.new {
            return new_blocks::answer(options, asked, out);
        }
        let earlier = history.earlier_peak().filter(|_| options.at == At::Peak);
        if let Some(peak) = earlier
            && let Some(exit) = earlier::answer(options, asked, peak, out)?
        {
            return Ok(exit);
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

fn print_object(options: &Options, asked: &Asked<'_>, totals: &Totals, out: &mut Page) -> io::Result<()> {
    let history = asked.history();
    let head = json_head(options, history, totals);
    if options.tree {
        let branches = history.tree(totals.moment, totals.active_bytes / 100);
        let lines = tree_lines(&branches, history.snapshot());
        return asked.print_json(&WithList { head, list: List("tree", &lines), rest: () }, out);
    }
    let groups = history.top(totals.moment, options.by.by());
    asked.print_list(head, "groups", &groups, options.listing.n, |group| group.bytes, out)
}

fn head(options: &Options, history: &DeviceHistory<'_>, totals: &Totals, out: &mut Page) -> io::Result<()> {
    let trust = history.trust();
    let peak = match options.at {
        At::Peak if trust.knows_peak() => "peak: ".to_owned(),
        At::Peak => format!("peak {}: ", of_the_last(&trust)),
        _ => String::new(),
    };
    let text = format!(
        "{peak}{} in use in {} {}, {} reserved{}",
        Bytes(totals.active_bytes),
        count(totals.n_blocks, "block"),
        moment::words(history, totals.moment),
        Bytes(totals.reserved_bytes),
        of_it_pending(totals, history.device()),
    );
    print_text(text, out)?;
    print_warnings(history, out)
}

fn body(
    options: &Options,
    history: &DeviceHistory<'_>,
    totals: &Totals,
    sites: &Sites<'_>,
    out: &mut Page,
) -> Result<(), Failure> {
    let (moment, all_bytes) = (totals.moment, totals.active_bytes);
    if options.tree {
        print_branches(&history.tree(moment, all_bytes / 100), history, all_bytes, out)?;
        return Ok(());
    }
    let groups = history.top(moment, options.by.by());
    // Device memory is not in blocks, and is larger than they are.
    let is_of_segments = matches!(options.by, Grouping::Owner);
    let all_bytes = if is_of_segments { sum(&groups).0 } else { all_bytes };
    print_groups(options, history, &groups, all_bytes, sites, out)?;
    Ok(())
}
