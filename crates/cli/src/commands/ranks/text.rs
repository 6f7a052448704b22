//! Prints the ranks as a table, with the reasons below each outlier.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use memreel_snapshot::analysis::ranks::{MAX_HOLDERS, RankFigures, Why};

use super::compared::{All, Compared};
use crate::{
    input::{is_stdin, name},
    text::{
        Bytes, Page, Table, clean, clean_display, count,
        diff_command::what_it_has_more,
        fit::{command, shortened},
        percent, print_text, shell_word,
    },
};

/// Prints the outliers, at most `n` of the other ranks, and the files that cannot be read.
pub(super) fn print(all: &All, n: usize, out: &mut Page) -> io::Result<()> {
    let (n_outliers, n_ranks) = (all.n_outliers(), all.ranks.len());
    let outliers = if n_outliers == 0 { "no outlier".to_owned() } else { count(n_outliers, "outlier") };
    let of_files = count(all.n_files, "file");
    if let Some(finding) = finding(all) {
        print_text(finding, out)?;
    }
    print_text(format!("{} in {of_files}, {outliers}{}", count(n_ranks, "rank"), peaks(all)), out)?;
    if n_ranks > 0 {
        writeln!(out)?;
        table(&all.ranks[..n_ranks.min(n_outliers.saturating_add(n))]).print(out)?;
        let n_left = (n_ranks - n_outliers).saturating_sub(n);
        if n_left > 0 {
            print_text(format!("{n_left} more like the others; use -n to show more"), out)?;
        }
    }
    if all.are_without_scopes() {
        print_text(
            "note: no ranks have scopes, so they are compared by the time since their first event",
            out,
        )?;
    }
    below(all, out)?;
    match next(all, out) {
        Some(next) => writeln!(out, "\n{next}"),
        None => Ok(()),
    }
}

/// Returns the command that answers what comes next: why the rank failed that failed first or differs most, or what it
/// has more than another.
fn next(all: &All, page: &Page) -> Option<String> {
    let is_file = |one: &&Compared| !is_stdin(&one.path);
    let why =
        |one: &Compared| command("why it failed: ", &["memreel", "oom", &shell_word(&name(&one.path))], page);
    if let Some(first) = all.mostly_failed().first() {
        return Some(first).filter(|one| is_file(one)).map(|first| why(first));
    }
    let one = all.ranks.first().filter(|one| one.verdict.is_outlier()).filter(is_file)?;
    if one.verdict.is_out_of_memory() {
        return Some(why(one));
    }
    let usual = all.ranks.iter().find(|one| !one.verdict.is_outlier()).filter(is_file)?;
    (usual.path != one.path)
        .then(|| what_it_has_more("peak", None, &name(&usual.path), &name(&one.path), page))
}

/// The most files that cannot be read in a text.
pub(super) const MAX_BROKEN: usize = 20;

/// Prints what comes below a table: the files that cannot be read, and the notes.
pub(super) fn below(all: &All, out: &mut Page) -> io::Result<()> {
    if !all.broken.is_empty() {
        writeln!(out)?;
    }
    for one in all.broken.iter().take(MAX_BROKEN) {
        print_text(format!("{}: {}", clean(&name(&one.path)), clean(&one.why)), out)?;
    }
    let n_left = all.broken.len().saturating_sub(MAX_BROKEN);
    if n_left > 0 {
        print_text(format!("{n_left} more cannot be read; --json has all"), out)?;
    }
    all.notes().iter().try_for_each(|note| print_text(format!("note: {}", clean(note)), out))
}

fn peaks(all: &All) -> String {
    let peaks = || all.ranks.iter().map(|one| one.figures.peak.active_bytes);
    let ends = peaks().min().zip(peaks().max());
    ends.map_or_else(String::new, |(least, most)| format!("; peaks from {} to {}", Bytes(least), Bytes(most)))
}

/// Returns in one sentence how many ranks failed, if they are most of them; otherwise which one differs most, and why.
fn finding(all: &All) -> Option<String> {
    let (failed, n_ranks) = (all.mostly_failed(), all.ranks.len());
    if let Some(first) = failed.first() {
        let (of, step) = (count(n_ranks, "rank"), step(first));
        return Some(match failed.len() {
            1 => format!("{} ran out of memory{step}, of {of}", clean(&first.name)),
            n => format!("{n} of {of} ran out of memory, first {}{step}", clean(&first.name)),
        });
    }
    let one = all.ranks.first().filter(|one| one.verdict.is_outlier())?;
    let name = clean(&one.name);
    let site = one.verdict.whys.iter().find_map(|why| match why {
        Why::Site { name, bytes, usual_bytes: 0 } => {
            // A list that is full may lack it.
            let may_have_it = |other: &Compared| {
                let sites = &other.figures.sites;
                sites.len() >= MAX_HOLDERS || sites.iter().any(|site| site.name == *name)
            };
            let is_shared = all.ranks.iter().any(|other| other.name != one.name && may_have_it(other));
            let others = if is_shared { "that most ranks do not have" } else { "that no other rank has" };
            Some(format!("{} holds {} {others}", clean(first_call(name)), Bytes(*bytes)))
        }
        Why::Site { name, bytes, usual_bytes } if bytes > usual_bytes => {
            let more = Bytes(bytes - usual_bytes);
            Some(format!("{} holds {more} more than on the other ranks", clean(first_call(name))))
        }
        _ => None,
    });
    let why = || one.verdict.whys.iter().find(|why| why.figures().is_some()).map(clean_display);
    let reason = site.or_else(why).map_or_else(String::new, |reason| format!(": {reason}"));
    Some(match one.verdict.is_out_of_memory() {
        true => format!("{name} ran out of memory{}{reason}", step(one)),
        false => format!("{name} differs from the others{reason}"),
    })
}

/// Returns the step in which a rank failed, after a space; nothing outside steps.
fn step(one: &Compared) -> String {
    let step = one.figures.oom.as_ref().map(|oom| &oom.step).filter(|step| !step.is_empty());
    step.map_or_else(String::new, |step| format!(" {}", clean(step)))
}

/// Returns the innermost of the calls of a site.
fn first_call(site: &str) -> &str {
    site.split(" ← ").next().unwrap_or(site)
}

fn table(ranks: &[Compared]) -> Table {
    let has_owners = ranks.iter().any(|one| !one.figures.owners.is_empty());
    let mut headings =
        vec!["rank", "peak", "scope at peak", "peak at", "reserved", "waste", "OOMs", "first difference"];
    if has_owners {
        headings.push("owners");
    }
    let mut table = Table::new(&headings);
    for one in ranks {
        let figures = &one.figures;
        let mut cells = vec![
            clean(&one.name).into_owned(),
            Bytes(figures.peak.active_bytes).to_string(),
            scope(&figures.peak_scope),
            seconds(figures),
            Bytes(figures.reserved_bytes).to_string(),
            Bytes(figures.waste_bytes).to_string(),
            figures.oom.as_ref().map_or_else(|| "-".to_owned(), |oom| oom.n_ooms.to_string()),
            scope(&one.verdict.first_difference.as_ref().and_then(Why::begin).unwrap_or_default()),
        ];
        if has_owners {
            cells.push(owners(figures));
        }
        table.row(cells);
        one.verdict.whys.iter().for_each(|why| table.note(clean_display(why)));
    }
    table
}

/// The most columns of a scope. Its whole name is in JSON, and that of a first difference among the reasons.
const SCOPE_COLUMNS: usize = 20;

fn scope(name: &str) -> String {
    if name.is_empty() { "-".to_owned() } else { shortened(&clean(name), SCOPE_COLUMNS) }
}

/// The time of the peak since the first event.
#[allow(clippy::cast_precision_loss)]
fn seconds(figures: &RankFigures) -> String {
    if figures.peak_us == 0 || figures.first_us == 0 {
        return "-".to_owned();
    }
    format!("{:.3} s", figures.peak_us.saturating_sub(figures.first_us) as f64 / 1e6)
}

/// The owner with the most memory, with its share.
fn owners(figures: &RankFigures) -> String {
    let bytes = figures.owners.iter().map(|owner| owner.bytes).fold(0, u64::saturating_add);
    match figures.owners.first() {
        None => "-".to_owned(),
        Some(owner) => format!("{} {}", clean(&owner.name), percent(owner.bytes, bytes).trim()),
    }
}
