//! `memreel leaks`: the memory that is still held at the end.

#![forbid(unsafe_code)]

mod options;
mod series;

pub(crate) use options::Options;

use std::io::{self, Write};

use memreel_snapshot::{
    analysis::{DeviceHistory, Group, LeakSite},
    history::{Moment, ScopeError, ScopePath},
};
use serde_json::json;

use crate::{
    exit::Exit,
    failure::Failure,
    findings::growth::finding,
    input::{Opener, each::Asked, each_device, files::named},
    options::moment::words,
    text::{
        Bytes, Page, Sites, clean, clean_display, count,
        fit::shortened,
        percent, print_text, print_warnings,
        rest::print_rest,
        shell_word,
        sites::{figures, heading, print_rows, sum},
        warnings::program_failure,
    },
};

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    let is_plain = options.between.is_empty() && options.older_than.is_none();
    let files = named(&options.input.files, opener)?;
    if is_plain && files.broken.is_empty() && files.files.len() > 1 {
        return series::answer(options, &files.files, opener, out);
    }
    each_device(&options.input, opener, out, |asked, out| {
        let sites = Sites::new(asked.history(), options.listing.calls());
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
            let what = "--between needs two scopes; if several have the same name, use for example";
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
                "device {}: {second} ends {} and {first} {}; swap them: --between {second} {first}",
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
    out: &mut Page,
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
        0 => "no blocks at the end are older than that".to_owned(),
        n => format!("{} in {} allocated before it may be that old", Bytes(bytes), count(n, "block")),
    };
    print_text(format!("note: the history has only {}; {older}", count(n_entries, "event")), out)
}

fn print_groups(
    options: &Options,
    asked: &Asked<'_>,
    groups: &[Group],
    what: &str,
    sites: &Sites<'_>,
    out: &mut Page,
) -> io::Result<()> {
    let (bytes, n) = sum(groups);
    if options.input.json {
        let head = json!({"bytes": bytes, "blocks": n});
        return asked.print_list(head, "groups", groups, options.listing.n, |group| group.bytes, out);
    }
    print_text(format!("{} in {} {what}", Bytes(bytes), count(n, "block")), out)?;
    print_warnings(asked.history(), out)?;
    if !groups.is_empty() {
        writeln!(out, "{}", Sites::heading(out))?;
    }
    sites.print_groups(&groups[..groups.len().min(options.listing.n)], bytes, out)?;
    print_rest(groups, options.listing.n, bytes, |group| group.bytes, out)
}

fn print_sites(options: &Options, asked: &Asked<'_>, sites: &Sites<'_>, out: &mut Page) -> io::Result<()> {
    let history = asked.history();
    let found = history.leaks();
    let n_growing = found.iter().filter(|site| site.is_growing).count();
    let count_of = |claim: &str| found.iter().filter(|site| site.claim.name() == claim).count();
    let (n_leaks, n_grew, n_doubtful) = (count_of("leak"), count_of("grew"), count_of("may be a leak"));
    let held = history.totals_at(history.end()).allocated_bytes;
    if options.input.json {
        let head = json!({
            "allocated_bytes": held,
            "n_growing": n_growing,
            "n_leaks": n_leaks,
            "n_grew": n_grew,
            "n_may_be_leaks": n_doubtful,
        });
        return asked.print_list(head, "sites", &found, options.listing.n, |site| site.bytes, out);
    }
    print_text(finding(history, &found), out)?;
    print_warnings(history, out)?;
    if let Some(failed) = program_failure(history.snapshot()) {
        print_text(
            format!("note: {failed}, so the list may include memory that it would have freed later"),
            out,
        )?;
    }
    if n_leaks + n_grew == 0 {
        print_freed_at_exit(asked, held, out)?;
    }
    // What is held is last.
    let (leaks, others) = found.split_at(n_leaks + n_grew + n_doubtful);
    print_list(leaks, held, options.listing.n, sites, out)?;
    if others.is_empty() && !leaks.is_empty() {
        return Ok(());
    }
    if !leaks.is_empty() {
        writeln!(out)?;
    }
    let bytes = Bytes(others.iter().fold(0, |sum, site| sum.saturating_add(site.bytes)));
    let another = if leaks.is_empty() { "" } else { "another " };
    print_text(format!("{another}{bytes} is held at the end, by {}", count(others.len(), "site")), out)?;
    print_list(others, held, options.listing.n, sites, out)
}

/// Says how to look at the peak, if little of it is left: a program that frees everything when it exits leaks until then.
fn print_freed_at_exit(asked: &Asked<'_>, held_bytes: u64, out: &mut Page) -> io::Result<()> {
    let history = asked.history();
    let peak = history.peak();
    let Some(event) = peak.moment.entry().filter(|_| held_bytes < peak.allocated_bytes / 10) else {
        return Ok(());
    };
    let what = format!(
        "note: {} was in use after event {event}, and most of it was freed by the end; to see what grew until then:",
        Bytes(peak.allocated_bytes)
    );
    print_text(what, out)?;
    let device = if asked.is_one_of_several { format!(" --device {}", asked.device) } else { String::new() };
    let file = shell_word(&asked.opened.name);
    writeln!(out, "  memreel slim --events ..{}{device} -o until-peak.pickle {file}", event + 1)?;
    writeln!(out, "  memreel leaks until-peak.pickle")
}

fn print_list(
    listed: &[LeakSite],
    held_bytes: u64,
    n: usize,
    sites: &Sites<'_>,
    out: &mut Page,
) -> io::Result<()> {
    if listed.is_empty() {
        return Ok(());
    }
    let heads = format!("{} {:>6}", figures("share", "bytes", "live"), "freed");
    writeln!(out, "{}", heading(&heads, "allocated by ← called by", out))?;
    let row = |site: &LeakSite| {
        let live = figures(percent(site.bytes, held_bytes), Bytes(site.bytes), site.n_live);
        format!("{live} {:>6}", site.n_freed)
    };
    print_rows(listed.iter().take(n).map(|site| (row(site), sites, &site.site)), out)?;
    print_rest(listed, n, held_bytes, |site| site.bytes, out)
}
