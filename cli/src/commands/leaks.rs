//! `memreel leaks`: the memory that is still held at the end.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel::{
    analysis::{DeviceHistory, Group, LeakSite},
    history::{Moment, Scopes},
};
use serde_json::json;

use crate::{
    bytes::Bytes,
    each::{Asked, each_history},
    exit::Exit,
    failure::Failure,
    options::{Input, Listing},
    sites::{Sites, print_rows},
    text::{clean, count, percent},
    warnings::print_warnings,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without an option, lists the sites that hold blocks at the end. Sites whose bytes grew in every quarter of
the history come first (marked +); weights and caches do not grow. A history of a few steps is too short.

Example:
  memreel leaks snapshot.pickle
  memreel leaks --between step#1 step#2 snapshot.pickle
  memreel leaks --older-than 10000 snapshot.pickle

Exit status: 0 answered, 2 wrong usage or an unknown scope, 3 a file that cannot be read or is not a snapshot.")]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,

    /// Show blocks allocated after the end of the first scope and held at the end of the second
    #[arg(long, num_args = 2, value_names = ["SCOPE", "SCOPE"], conflicts_with = "older_than")]
    between: Vec<String>,

    /// Show blocks held at the end that are at least this number of events old
    #[arg(long, value_name = "EVENTS")]
    older_than: Option<usize>,

    #[command(flatten)]
    listing: Listing,
}

pub(crate) fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    each_history(&options.input, out, |asked, out| {
        let sites = Sites::new(&asked.opened.snapshot, options.listing.frames);
        match some(options, &asked.history)? {
            Some(groups) => print_groups(options, asked, &groups, &sites, out)?,
            None => print_sites(options, asked, &sites, out)?,
        }
        Ok(Exit::Fine)
    })
}

/// Returns the groups of --between or --older-than, if given.
fn some(options: &Options, history: &DeviceHistory<'_>) -> Result<Option<Vec<Group>>, Failure> {
    if let [first, second] = &options.between[..] {
        let scopes = Scopes::new(history.snapshot(), history.device());
        let end = |name: &str| -> Result<Moment, Failure> {
            let none = || {
                let what = format!("no scope {name:?} in the history of device {}", history.device());
                Failure::usage(what + &known(&scopes.paths()))
            };
            scopes.end_of(name).ok_or_else(none)
        };
        return Ok(Some(history.grown_between(end(first)?, end(second)?)));
    }
    Ok(options.older_than.map(|n| history.older_than(n)))
}

/// Returns the scopes that could have been named.
fn known(scopes: &[&str]) -> String {
    const N: usize = 8;
    let more = if scopes.len() > N { ", …" } else { "" };
    match scopes {
        [] => ": no scopes were recorded (user_metadata, or record_function with annotations)".to_owned(),
        _ => format!("; there are {}{more}", clean(&scopes[..scopes.len().min(N)].join(", "))),
    }
}

fn print_groups(
    options: &Options,
    asked: &Asked<'_>,
    groups: &[Group],
    sites: &Sites<'_>,
    out: &mut impl Write,
) -> io::Result<()> {
    let bytes = groups.iter().map(|group| group.bytes).fold(0, u64::saturating_add);
    let n: usize = groups.iter().map(|group| group.n_blocks).sum();
    if options.input.json {
        let groups = sites.first_with_frames(groups, options.listing.n);
        return asked.print_json(&json!({"bytes": bytes, "blocks": n, "groups": groups}), out);
    }
    let what = match (&options.between[..], options.older_than) {
        ([first, second], _) => format!("allocated between {first} and {second} and still held"),
        (_, Some(age)) => format!("held at the end for {} or more", count(age, "event")),
        _ => String::new(),
    };
    writeln!(out, "{} in {} {what}", Bytes(bytes), count(n, "block"))?;
    print_warnings(&asked.history, out)?;
    sites.print_groups(&groups[..groups.len().min(options.listing.n)], bytes, out)
}

fn print_sites(
    options: &Options,
    asked: &Asked<'_>,
    sites: &Sites<'_>,
    out: &mut impl Write,
) -> io::Result<()> {
    let history = &asked.history;
    let found = history.leaks();
    let n_growing = found.iter().filter(|site| site.is_growing).count();
    let held = history.totals_at(history.end()).allocated_bytes;
    if options.input.json {
        let listed = sites.first_with_frames(&found, options.listing.n);
        let answer = json!({"allocated_bytes": held, "n_growing": n_growing, "sites": listed});
        return asked.print_json(&answer, out);
    }
    writeln!(
        out,
        "{} held at the end by {}; {} of them grew all along",
        Bytes(held),
        count(found.len(), "site"),
        n_growing
    )?;
    print_warnings(history, out)?;
    let figures = |site: &LeakSite| {
        let mark = if site.is_growing { '+' } else { ' ' };
        let figures = format!(
            "{mark}{} {:>11} {:>5} live, {} of {} freed",
            percent(site.bytes, held),
            Bytes(site.bytes).to_string(),
            site.n_live,
            site.n_freed,
            site.n_allocated,
        );
        format!("{figures:52}")
    };
    let listed = found.iter().take(options.listing.n);
    print_rows(listed.map(|site| (figures(site), sites, &site.site)), out)
}
