//! `memreel top --allocated`: what each stack allocated, freed or not.

#![forbid(unsafe_code)]

use memreel_snapshot::analysis::{DeviceHistory, Group};
use serde_json::json;

use super::{groups::print_groups, options::Options};
use crate::{
    exit::Exit,
    failure::Failure,
    input::each::Asked,
    text::{Bytes, List, Page, Sites, WithList, count, print_text, print_warnings, rest::rest, sites::sum},
};

/// Prints the answer for one device: by the sums of the whole run, or by the events.
pub(super) fn answer(options: &Options, asked: &Asked<'_>, out: &mut Page) -> Result<Exit, Failure> {
    let history = asked.history();
    match history.snapshot().allocated(asked.device) {
        // Of the events, the peak of each site is known, also if its stacks are several.
        Some(_) if !history.trust().has_lost => {
            print(options, asked, history, &history.allocated_with_peaks(), true, out)
        }
        Some(run) => {
            let of_run = DeviceHistory::new(&run.stacks, asked.device);
            print(options, asked, &of_run, &of_run.groups_of(&run), true, out)
        }
        None => print(options, asked, history, &history.allocated(), false, out),
    }
}

fn print(
    options: &Options,
    asked: &Asked<'_>,
    history: &DeviceHistory<'_>,
    groups: &[Group],
    is_of_run: bool,
    out: &mut Page,
) -> Result<Exit, Failure> {
    let sites = Sites::new(history, options.listing.calls());
    let (bytes, n) = sum(groups);
    if options.input.json {
        let trust = asked.history().trust();
        let is_exact = match is_of_run {
            true => groups.iter().all(|group| group.peak_is_at_most != Some(true)),
            false => !trust.has_lost && trust.is_exact(),
        };
        let head = json!({
            "allocated_bytes": bytes,
            "blocks": n,
            "is_of_run": is_of_run,
            "is_exact": is_exact,
        });
        let n = options.listing.n;
        let listed = sites.first_with_frames(groups, n);
        let rest = rest(groups, n, |group| group.bytes);
        asked.print_json(&WithList { head, list: List("groups", &listed), rest }, out)?;
        return Ok(Exit::Fine);
    }
    let of = if is_of_run { "over the whole run" } else { "in the events of the file" };
    print_text(format!("{} was allocated in {} {of}", Bytes(bytes), count(n, "block")), out)?;
    if !is_of_run {
        print_warnings(asked.history(), out)?;
    }
    print_groups(options, history, groups, bytes, &sites, out)?;
    Ok(Exit::Fine)
}
