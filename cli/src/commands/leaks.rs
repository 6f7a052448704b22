//! `memreel leaks`: the memory that is still held at the end.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel::{
    DeviceId,
    analysis::{DeviceHistory, Group, LeakSite},
    history::{Moment, Scopes},
};
use serde_json::{Value, json};

use crate::{
    bytes::Bytes,
    each::each_device,
    exit::Exit,
    failure::Failure,
    input::Opened,
    json::joined,
    options::{Input, Listing},
    sites::Sites,
    text::{clean, count, percent},
    warnings::warnings,
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
    each_device(&options.input, out, |opened, device, out| {
        let history = DeviceHistory::new(&opened.snapshot, device);
        let sites = Sites::new(&opened.snapshot, options.listing.frames);
        match some(options, &history)? {
            Some(groups) => print_groups(options, opened, device, &history, &groups, &sites, out)?,
            None => print_sites(options, opened, device, &history, &sites, out)?,
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
    opened: &Opened,
    device: DeviceId,
    history: &DeviceHistory<'_>,
    groups: &[Group],
    sites: &Sites<'_>,
    out: &mut impl Write,
) -> io::Result<()> {
    let bytes = groups.iter().map(|group| group.bytes).fold(0, u64::saturating_add);
    let n: usize = groups.iter().map(|group| group.n_blocks).sum();
    if options.input.json {
        let groups: Vec<Value> =
            groups.iter().take(options.listing.n).map(|group| sites.group_json(group)).collect();
        let warnings = history.trust().warnings();
        let object = json!({
            "file": opened.name, "device": device.0, "bytes": bytes, "blocks": n, "groups": groups, "warnings": warnings,
        });
        return writeln!(out, "{object}");
    }
    let what = match (&options.between[..], options.older_than) {
        ([first, second], _) => format!("allocated between {first} and {second} and still held"),
        (_, Some(age)) => format!("held at the end for {} or more", count(age, "event")),
        _ => String::new(),
    };
    writeln!(out, "{} in {} {what}", Bytes(bytes), count(n, "block"))?;
    warnings(history).iter().try_for_each(|warning| writeln!(out, "{warning}"))?;
    groups.iter().take(options.listing.n).try_for_each(|group| writeln!(out, "{}", sites.group(group, bytes)))
}

fn print_sites(
    options: &Options,
    opened: &Opened,
    device: DeviceId,
    history: &DeviceHistory<'_>,
    sites: &Sites<'_>,
    out: &mut impl Write,
) -> io::Result<()> {
    let found = history.leaks();
    let growing: Vec<&LeakSite> = found.iter().filter(|site| site.is_growing()).collect();
    let held = history.totals_at(history.end()).allocated_bytes;
    if options.input.json {
        let site = |site: &LeakSite| {
            let object = json!({
                "bytes": site.bytes,
                "live": site.n_live,
                "allocated": site.n_allocated,
                "freed": site.n_freed,
                "oldest_event": site.oldest.entry(),
                "newest_event": site.newest.entry(),
                "bytes_after_each_quarter": site.quarters,
                "is_growing": site.is_growing(),
            });
            joined(object, sites.json(&site.site))
        };
        let all: Vec<Value> = found.iter().take(options.listing.n).map(site).collect();
        let object = json!({
            "file": opened.name,
            "device": device.0,
            "allocated_bytes": held,
            "n_growing": growing.len(),
            "sites": all,
            "warnings": history.trust().warnings(),
        });
        return writeln!(out, "{object}");
    }
    writeln!(
        out,
        "{} held at the end by {}; {} of them grew all along",
        Bytes(held),
        count(found.len(), "site"),
        growing.len()
    )?;
    warnings(history).iter().try_for_each(|warning| writeln!(out, "{warning}"))?;
    for site in found.iter().take(options.listing.n) {
        let mark = if site.is_growing() { '+' } else { ' ' };
        let figures = format!(
            "{mark}{} {:>11} {:>5} live, {} of {} freed",
            percent(site.bytes, held),
            Bytes(site.bytes).to_string(),
            site.n_live,
            site.n_freed,
            site.n_allocated,
        );
        writeln!(out, "{}", sites.row(&format!("{figures:52}"), &site.site))?;
    }
    Ok(())
}
