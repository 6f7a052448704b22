//! `memreel leaks`: the memory that is still held at the end.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel_snapshot::{
    analysis::{DeviceHistory, Group, LeakSite},
    history::{Moment, ScopeError, ScopePath},
};
use serde_json::json;

use crate::{
    bytes::Bytes,
    each::{Asked, each_device},
    exit::Exit,
    failure::Failure,
    fit::{print_text, shortened},
    moment::words,
    options::{Input, Listing},
    rest::print_rest,
    sites::{Sites, figures, heading, print_rows, sum},
    text::{clean, clean_display, count, percent},
    warnings::print_warnings,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without an option, lists the sites that hold blocks at the end. Sites whose
bytes grew in every quarter of the history come first (marked +); weights and
caches do not grow. A history of a few steps is too short. Columns: `share` of
all that is allocated at the end, `bytes` of the site's blocks that are live
then, `live` their number, and `freed` how many blocks of the site were
allocated and freed within the history.

A scope that occurs several times is named with its number: step#0 is the first
scope `step` of the device, step#1 the second, in the order in which they begin.
`memreel slim --scope` counts in the same way. If the name of a scope is step#1
itself, that scope is meant.

Example:
  memreel leaks snapshot.pickle
  memreel leaks --between step#1 step#2 snapshot.pickle
  memreel leaks --older-than 10000 snapshot.pickle

Exit status: 0 answered, 2 wrong usage or an unknown scope, 3 a file that cannot
be read or is not a snapshot.")]
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
    each_device(&options.input, out, |asked, out| {
        let sites = Sites::new(asked.history(), options.listing.frames);
        if let [first, second] = &options.between[..] {
            let between = Between::new([first, second], asked.history())?;
            print_groups(options, asked, &between.groups, &between.words(), &sites, out)?;
        } else if let Some(age) = options.older_than {
            print_older(options, asked, age, &sites, out)?;
        } else {
            print_sites(options, asked, &sites, out)?;
        }
        Ok(Exit::Fine)
    })
}

/// The answer of --between.
struct Between<'a> {
    scopes: [&'a str; 2],
    /// The moments at which the scopes end.
    ends: [Moment; 2],
    groups: Vec<Group>,
}

impl<'a> Between<'a> {
    fn new(names: [&'a str; 2], history: &DeviceHistory<'_>) -> Result<Between<'a>, Failure> {
        let [first, second] = names;
        if first == second {
            let what = "--between needs two scopes; of several with one name, name for example";
            return Err(Failure::usage(format!("{what} {first}#0 {first}#1")));
        }
        let scopes = history.scopes();
        let end = |name: &str| {
            let why = |error: ScopeError| {
                let known = if let ScopeError::Unknown { .. } = error {
                    known(&scopes.paths())
                } else {
                    String::new()
                };
                Failure::usage(format!("device {}: {error}{known}", history.device()))
            };
            scopes.end_of(name).map_err(why)
        };
        let ends = [end(first)?, end(second)?];
        let backwards = || {
            Failure::usage(format!(
                "device {}: {second} ends {} and {first} {}; exchange them: --between {second} {first}",
                history.device(),
                words(history, ends[1]),
                words(history, ends[0]),
            ))
        };
        let groups = history.grown_between(ends[0], ends[1]).ok_or_else(backwards)?;
        Ok(Between { scopes: names, ends, groups })
    }

    fn words(&self) -> String {
        let [first, second] = [0, 1].map(|at| match self.ends[at].entry() {
            Some(event) => format!("{} (event {event})", self.scopes[at]),
            None => format!("{} (before event 0)", self.scopes[at]),
        });
        format!("allocated between the ends of {} and still held", clean(&format!("{first} and {second}")))
    }
}

/// Returns the scopes that could have been named.
fn known(scopes: &[&ScopePath]) -> String {
    const N: usize = 8;
    let more = if scopes.len() > N { ", …" } else { "" };
    match scopes {
        [] => ": no scopes were recorded (user_metadata, or record_function with annotations)".to_owned(),
        _ => {
            let names: Vec<String> =
                scopes.iter().take(N).map(|scope| shortened(&clean_display(scope), 60)).collect();
            format!("; there are {}{more}", names.join(", "))
        }
    }
}

/// Prints the answer of --older-than.
fn print_older(
    options: &Options,
    asked: &Asked<'_>,
    age: usize,
    sites: &Sites<'_>,
    out: &mut impl Write,
) -> io::Result<()> {
    let history = asked.history();
    let groups = history.older_than(age);
    let n_entries = history.entries().len();
    let is_known = age <= n_entries;
    let (bytes, n) = if is_known { (0, 0) } else { sum(&history.from_before()) };
    if options.input.json {
        let (all_bytes, all) = sum(&groups);
        let head = json!({
            "bytes": all_bytes,
            "blocks": all,
            "perhaps_bytes": bytes,
            "perhaps_blocks": n,
        });
        return asked.print_list(head, "groups", &groups, options.listing.n, |group| group.bytes, out);
    }
    let what = format!("held at the end for {} or more", count(age, "event"));
    print_groups(options, asked, &groups, &what, sites, out)?;
    if is_known {
        return Ok(());
    }
    let older = match n {
        0 => "no block at the end is from before it".to_owned(),
        n => format!("{} in {} from before it may be that old", Bytes(bytes), count(n, "block")),
    };
    print_text(format!("note: the history has only {}; {older}", count(n_entries, "event")), out)
}

fn print_groups(
    options: &Options,
    asked: &Asked<'_>,
    groups: &[Group],
    what: &str,
    sites: &Sites<'_>,
    out: &mut impl Write,
) -> io::Result<()> {
    let (bytes, n) = sum(groups);
    if options.input.json {
        let head = json!({"bytes": bytes, "blocks": n});
        return asked.print_list(head, "groups", groups, options.listing.n, |group| group.bytes, out);
    }
    print_text(format!("{} in {} {what}", Bytes(bytes), count(n, "block")), out)?;
    print_warnings(asked.history(), out)?;
    if !groups.is_empty() {
        writeln!(out, "{}", Sites::heading())?;
    }
    sites.print_groups(&groups[..groups.len().min(options.listing.n)], bytes, out)?;
    print_rest(groups, options.listing.n, bytes, |group| group.bytes, out)
}

fn print_sites(
    options: &Options,
    asked: &Asked<'_>,
    sites: &Sites<'_>,
    out: &mut impl Write,
) -> io::Result<()> {
    let history = asked.history();
    let found = history.leaks();
    let n_growing = found.iter().filter(|site| site.is_growing).count();
    let held = history.totals_at(history.end()).allocated_bytes;
    if options.input.json {
        let head = json!({"allocated_bytes": held, "n_growing": n_growing});
        return asked.print_list(head, "sites", &found, options.listing.n, |site| site.bytes, out);
    }
    let growing = match n_growing {
        0 => "none grew in every quarter of the history".to_owned(),
        n => format!("{n} grew in every quarter of the history (marked +)"),
    };
    let held_by = format!("{} allocated at the end by {}", Bytes(held), count(found.len(), "site"));
    print_text(if found.is_empty() { held_by } else { format!("{held_by}; {growing}") }, out)?;
    print_warnings(history, out)?;
    if !found.is_empty() {
        let figures = format!(" {} {:>6}", figures("share", "bytes", "live"), "freed");
        writeln!(out, "{}", heading(&figures, "allocated by ← called by"))?;
    }
    let row = |site: &LeakSite| {
        let mark = if site.is_growing { '+' } else { ' ' };
        let live = figures(percent(site.bytes, held), Bytes(site.bytes), site.n_live);
        format!("{mark}{live} {:>6}", site.n_freed)
    };
    let listed = found.iter().take(options.listing.n);
    print_rows(listed.map(|site| (row(site), sites, &site.site)), out)?;
    if found.len() > options.listing.n {
        // The column of the mark.
        write!(out, " ")?;
    }
    print_rest(&found, options.listing.n, held, |site| site.bytes, out)
}
