//! Describes the sites that grow, in a sentence.

#![forbid(unsafe_code)]

use memreel_snapshot::{
    analysis::{Claim, DeviceHistory, GrowthKind, LeakSite},
    history::{Life, step_of},
};

use crate::{
    options::moment::words,
    text::{Bytes, clean, count},
};

/// Returns what was found, in a sentence.
pub(crate) fn finding(history: &DeviceHistory<'_>, sites: &[LeakSite]) -> String {
    let found: Vec<String> = claims(history, sites).into_iter().map(|(_, text)| text).collect();
    if !found.is_empty() {
        return found.join("; ");
    }
    if let Some(grown) = grown_at_failure(history) {
        return grown;
    }
    if history.is_sampled() {
        return "no leak found, but the heap is sampled, and one file is not enough; compare three \
                snapshots: memreel leaks FIRST SECOND THIRD"
            .to_owned();
    }
    let n_growing = sites.iter().filter(|site| site.is_growing && site.made.is_none()).count();
    let found = match history.growth_at(history.end()) {
        Some(_) if history.trust().has_lost && n_growing > 0 => format!(
            "no certain leak: the oldest events are lost, and {} held more after each quarter of the rest. \
             Compare snapshots of two moments: memreel leaks FIRST SECOND",
            count(n_growing, "site")
        ),
        Some(_) => {
            "no leak: no site holds more than in earlier steps (blocks of an unfinished step are not counted)"
                .to_owned()
        }
        None => {
            "no leak is visible: no step or request repeats in the history, so there is no usual level to \
             compare with"
                .to_owned()
        }
    };
    found + &made_once(sites)
}

/// Returns what was created once, if that is what grew.
fn made_once(sites: &[LeakSite]) -> String {
    let made = sites.iter().filter(|site| site.is_growing);
    let Some(most) = made.filter(|site| site.made.is_some()).max_by_key(|site| site.bytes) else {
        return String::new();
    };
    let same = sites.iter().filter(|site| site.is_growing && site.made == most.made);
    let bytes = Bytes(same.map(|site| site.bytes).fold(0, u64::saturating_add));
    most.made.map_or_else(String::new, |made| format!("; {bytes} of {made} is allocated only once"))
}

/// Returns the claims about the sites that are not just held: the sites of each claim, with the sentence.
pub(crate) fn claims<'s>(
    history: &DeviceHistory<'_>,
    sites: &'s [LeakSite],
) -> Vec<(Vec<&'s LeakSite>, String)> {
    let words = ["leak", "grew", "may be a leak"].into_iter();
    let of = words.map(|word| sites.iter().filter(|site| site.claim.name() == word).collect::<Vec<_>>());
    of.filter(|sites| !sites.is_empty()).map(|sites| (sites.clone(), said(history, &sites))).collect()
}

/// Returns a sentence about sites of which the same is said.
fn said(history: &DeviceHistory<'_>, sites: &[&LeakSite]) -> String {
    let (first, n) = (sites[0], sites.len());
    let bytes = Bytes(sites.iter().map(|site| site.grown_bytes()).fold(0, u64::saturating_add));
    let site = if n == 1 { "it" } else { "the first" };
    match first.claim {
        Claim::Leak => {
            let leaks = if n == 1 { "a leak".to_owned() } else { count(n, "leak") };
            format!("{leaks} of {bytes}; {site} {}{}", how(history, first), estimated(history, first))
        }
        Claim::MayBeALeak(doubt) => {
            let leaks =
                if n == 1 { "1 site may be a leak".to_owned() } else { format!("{n} sites may be leaks") };
            format!("{leaks}, of {bytes}: {doubt}")
        }
        _ => {
            let hold = if n == 1 { "holds" } else { "hold" };
            let how = how(history, first);
            format!(
                "{} grew by {bytes} and {hold} more than in any earlier step; {site} {how}",
                count(n, "site")
            )
        }
    }
}

/// Returns the error of an estimate: twice the standard deviation of its number of samples.
fn estimated(history: &DeviceHistory<'_>, site: &LeakSite) -> String {
    if !history.is_sampled() {
        return String::new();
    }
    let n = site.growth.map_or(site.n_live, |growth| growth.n_blocks).max(1);
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let error = (site.grown_bytes() as f64 * 2.0 / (n as f64).sqrt()) as u64;
    format!(" (an estimate of {}, within {})", count(n, "sample"), Bytes(error))
}

/// Returns what had grown when a request failed, for a program that freed it afterwards.
fn grown_at_failure(history: &DeviceHistory<'_>) -> Option<String> {
    let failed = history.oom()?.totals.moment;
    let mut growths = history.growth_at(failed)?;
    growths.sites.retain(|site| site.kind != GrowthKind::LargerStep);
    growths.kind()?;
    let entries = history.grown_blocks(&growths, failed);
    let is_grown =
        |life: &&Life| life.from.entry().is_some_and(|entry| entries.binary_search(&entry).is_ok());
    let held = history.lives().iter().filter(is_grown).filter(|life| life.is_allocated_at(history.end()));
    let held_bytes = held.fold(0_u64, |sum, life| sum.saturating_add(life.represented_bytes));
    let since = match held_bytes {
        0 => "the program freed that afterwards".to_owned(),
        bytes => format!("{} of it is still held", Bytes(bytes.min(growths.bytes()))),
    };
    Some(format!(
        "no leak since then, but when a request failed, {}, {} had grown by {}; {since}; run memreel oom to see why",
        words(history, failed),
        count(growths.sites.len(), "site"),
        Bytes(growths.bytes()),
    ))
}

/// Returns how a site grew.
fn how(history: &DeviceHistory<'_>, site: &LeakSite) -> String {
    let Some(growth) = site.growth else { return String::new() };
    let blocks = count(growth.n_blocks, "block");
    let since = match growth.began.entry() {
        None => "from the start".to_owned(),
        Some(event) => {
            let step = step_of(&history.scopes().steps(), event);
            let step = step.map_or_else(String::new, |step| format!(" ({})", clean(&step)));
            format!("since event {event}{step}")
        }
    };
    let n_left = (history.entries().len() + 1).saturating_sub(growth.began.n_entries());
    let pace = history.pace(growth.bytes, growth.began, history.end());
    let pace = pace.map_or_else(String::new, |pace| format!(", {pace}"));
    match growth.kind {
        GrowthKind::Steady => format!("grew throughout: {blocks} {since}{pace}"),
        _ => {
            format!("grew recently: {blocks} in the last {}, {since}{pace}", count(n_left, "event"))
        }
    }
}
