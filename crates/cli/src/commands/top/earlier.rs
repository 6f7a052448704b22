//! `memreel top` at a peak whose events the ring lost: what was in use then, from the sums of the whole run.

#![forbid(unsafe_code)]

use memreel_snapshot::analysis::{DeviceHistory, EarlierPeak, Group};

use super::{
    groups::print_groups,
    options::Options,
    tree::{json_head, print_branches, tree_lines},
};
use crate::{
    exit::Exit,
    failure::Failure,
    input::each::Asked,
    options::moment::earlier,
    text::{List, Page, Sites, WithList, print_text, print_warnings, rest::rest},
};

/// Prints the answer; `None` if what it groups by is not known.
pub(super) fn answer(
    options: &Options,
    asked: &Asked<'_>,
    peak: &EarlierPeak,
    out: &mut Page,
) -> Result<Option<Exit>, Failure> {
    let (history, stacks) = (asked.history(), peak.stacks());
    let Some(groups) = peak.top(&stacks, options.by.by()) else { return Ok(None) };
    let totals = peak.totals();
    if options.input.json {
        print_object(options, asked, &stacks, peak, &groups, out)?;
        return Ok(Some(Exit::Fine));
    }
    print_text(format!("peak: {}", earlier(history, peak)), out)?;
    print_warnings(history, out)?;
    if options.tree {
        let branches = peak.tree(&stacks, totals.active_bytes / 100);
        print_branches(&branches, &stacks, totals.active_bytes, out)?;
    } else {
        let sites = Sites::new(&stacks, options.listing.calls());
        print_groups(options, &stacks, &groups, totals.active_bytes, &sites, out)?;
    }
    Ok(Some(Exit::Fine))
}

fn print_object(
    options: &Options,
    asked: &Asked<'_>,
    stacks: &DeviceHistory<'_>,
    peak: &EarlierPeak,
    groups: &[Group],
    out: &mut Page,
) -> Result<(), Failure> {
    let (totals, n) = (peak.totals(), options.listing.n);
    let head = json_head(options, asked.history(), &totals);
    if options.tree {
        let branches = peak.tree(stacks, totals.active_bytes / 100);
        let lines = tree_lines(&branches, stacks.snapshot());
        asked.print_json(&WithList { head, list: List("tree", &lines), rest: () }, out)?;
    } else {
        let sites = Sites::new(stacks, 0);
        let listed = sites.first_with_frames(groups, n);
        let rest = rest(groups, n, |group| group.bytes);
        asked.print_json(&WithList { head, list: List("groups", &listed), rest }, out)?;
    }
    Ok(())
}
