//! `memreel leaks`: the memory that is still held at the end.

#![forbid(unsafe_code)]

mod options;
mod series;

pub(crate) use options::Options;

use std::io::{self, Write};

use memreel_answers::{
    Between, BetweenQuestion, Leaks, LeaksQuestion, Older, OlderQuestion, Question, Refusal,
};
use memreel_snapshot::{
    analysis::{DeviceHistory, Group, LeakSite, SiteList},
    history::{ScopeError, ScopePath},
};

use crate::{
    exit::Exit,
    failure::Failure,
    findings::growth::finding,
    input::{Opener, each::DeviceOfFile, each_device, files::named},
    options::moment::words,
    text::{
        Bytes, Page, Sites, clean, clean_display, count,
        fit::shortened,
        percent, print_text, print_warnings,
        rest::{print_rest, rest},
        shell_word,
        sites::{figures, heading, print_rows},
        warnings::program_failure,
    },
};

pub(crate) fn run(options: &Options, opener: &Opener, out: &mut Page) -> Result<Exit, Failure> {
    let is_plain = options.between.is_empty() && options.older_than.is_none();
    let files = named(&options.input.files, opener)?;
    if is_plain && files.broken.is_empty() && files.files.len() > 1 {
        return series::answer(options, &files.files, opener, out);
    }
    let n = options.listing.n;
    each_device(&options.input, opener, out, |asked, out| {
        let (subject, history, is_json) = (asked.subject(), asked.history(), options.input.json);
        if let [first, second] = &options.between[..] {
            let scopes = [&**first, second];
            let answer = BetweenQuestion { scopes, n }.ask(subject);
            let answer = answer.map_err(|refusal| refused(refusal, scopes, history))?;
            match is_json {
                true => asked.print_answer(&answer, out)?,
                false => print_groups(
                    options,
                    history,
                    &answer.groups,
                    (answer.bytes, answer.blocks),
                    &between_words(scopes, &answer),
                    out,
                )?,
            }
        } else if let Some(age) = options.older_than {
            let answer = OlderQuestion { age, n }.ask(subject)?;
            match is_json {
                true => asked.print_answer(&answer, out)?,
                false => print_older(options, history, age, &answer, out)?,
            }
        } else {
            let answer = LeaksQuestion { n }.ask(subject)?;
            match is_json {
                true => asked.print_answer(&answer, out)?,
                false => print_sites(options, asked, &answer, out)?,
            }
        }
        Ok(Exit::Fine)
    })
}

/// Returns why --between has no answer, in the words of the command line.
fn refused(refusal: Refusal, [first, second]: [&str; 2], history: &DeviceHistory<'_>) -> Failure {
    match refusal {
        Refusal::SameScope { scope } => Failure::usage(format!(
            "--between needs two scopes; if several have the same name, use for example {scope}#0 {scope}#1"
        )),
        Refusal::Scope { error: ScopeError::Unknown { .. }, .. } => {
            Failure::usage(format!("{refusal}{}", known(&history.scopes().paths())))
        }
        Refusal::Backwards { device, ends } => Failure::usage(format!(
            "device {device}: {second} ends {} and {first} {}; swap them: --between {second} {first}",
            words(history, ends[1]),
            words(history, ends[0]),
        )),
        refusal => refusal.into(),
    }
}

fn between_words(scopes: [&str; 2], answer: &Between<'_>) -> String {
    let [first, second] = [0, 1].map(|at| match answer.ends[at].entry() {
        Some(event) => format!("{} (event {event})", scopes[at]),
        None => format!("{} (before event 0)", scopes[at]),
    });
    format!("allocated between the ends of {} and still held", clean(&format!("{first} and {second}")))
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
    history: &DeviceHistory<'_>,
    age: usize,
    answer: &Older<'_>,
    out: &mut Page,
) -> io::Result<()> {
    let what = format!("held at the end for {} or more", count(age, "event"));
    print_groups(options, history, &answer.groups, (answer.bytes, answer.blocks), &what, out)?;
    let n_entries = history.entries().len();
    if age <= n_entries {
        return Ok(());
    }
    let older = match answer.perhaps_blocks {
        0 => "no blocks at the end are older than that".to_owned(),
        n => {
            let bytes = Bytes(answer.perhaps_bytes);
            format!("{bytes} in {} allocated before it may be that old", count(n, "block"))
        }
    };
    print_text(format!("note: the history has only {}; {older}", count(n_entries, "event")), out)
}

fn print_groups(
    options: &Options,
    history: &DeviceHistory<'_>,
    groups: &SiteList<'_, Group>,
    (bytes, n): (u64, usize),
    what: &str,
    out: &mut Page,
) -> io::Result<()> {
    print_text(format!("{} in {} {what}", Bytes(bytes), count(n, "block")), out)?;
    print_warnings(history, out)?;
    if !groups.all().is_empty() {
        writeln!(out, "{}", Sites::heading(out))?;
    }
    Sites::new(history, options.listing.calls()).print_groups(groups.listed(), bytes, out)?;
    print_rest(groups.rest(|group| group.bytes), bytes, out)
}

fn print_sites(
    options: &Options,
    asked: &DeviceOfFile<'_>,
    answer: &Leaks<'_>,
    out: &mut Page,
) -> io::Result<()> {
    let (history, found, held) = (asked.history(), answer.sites.all(), answer.allocated_bytes);
    let sites = &Sites::new(history, options.listing.calls());
    let n_claimed = answer.n_leaks + answer.n_grew;
    print_text(finding(history, found), out)?;
    print_warnings(history, out)?;
    if let Some(failed) = program_failure(history.snapshot()) {
        print_text(
            format!("note: {failed}, so the list may include memory that it would have freed later"),
            out,
        )?;
    }
    if n_claimed == 0 {
        print_freed_at_exit(asked, held, out)?;
    }
    // What is held is last.
    let (leaks, others) = found.split_at(n_claimed + answer.n_may_be_leaks);
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
fn print_freed_at_exit(asked: &DeviceOfFile<'_>, held_bytes: u64, out: &mut Page) -> io::Result<()> {
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
    print_rest(rest(listed, n, |site| site.bytes), held_bytes, out)
}
