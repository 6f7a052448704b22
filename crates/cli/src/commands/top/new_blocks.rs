//! `memreel top --new`: what is allocated after a time, counted in the order of the program's requests.

#![forbid(unsafe_code)]

use memreel_snapshot::{
    DeviceId, Snapshot,
    analysis::{DeviceHistory, Group, NewBlocks},
    history::Moment,
};
use serde_json::json;

use super::{groups::print_groups, options::Options};
use crate::{
    exit::Exit,
    failure::Failure,
    input::each::Asked,
    options::{At, moment::words},
    text::{Bytes, Page, Sites, count, print_text, sites::sum},
};

/// The answer for one device: the figures, and the blocks of one moment.
struct Answer {
    new: NewBlocks,
    moment: Moment,
    groups: Vec<Group>,
}

impl Answer {
    fn of(options: &Options, history: &DeviceHistory<'_>) -> Result<Answer, Failure> {
        let since = options.since.map_or(Moment::START, |since| {
            history.moment_before(since.time_us(first_us(history.snapshot()).unwrap_or(0)))
        });
        let new = history.new_blocks(since);
        let moment = if options.at == At::Peak { new.peak } else { options.at.moment(history)? };
        let by_owner = || Failure::usage("--new counts blocks, which have no owners; leave out --by owner");
        let groups = history.new_at(since, moment, options.by.by()).ok_or_else(by_owner)?;
        Ok(Answer { new, moment, groups })
    }

    fn head(&self, options: &Options, history: &DeviceHistory<'_>) -> String {
        let NewBlocks { since, peak, peak_bytes, n_at_peak, left_bytes, n_left, .. } = self.new;
        let of = if since == Moment::START { "" } else { &format!(" since {}", since_words(since)) };
        let peak = format!(
            "{} allocated{of} and held in {} at the peak, {}; {} in {} is left at the end",
            Bytes(peak_bytes),
            count(n_at_peak, "block"),
            words(history, peak),
            Bytes(left_bytes),
            count(n_left, "block"),
        );
        match options.at {
            At::Peak | At::End => peak,
            _ => {
                let (bytes, n) = sum(&self.groups);
                let at = words(history, self.moment);
                format!("{peak}; {} in {} {at}", Bytes(bytes), count(n, "block"))
            }
        }
    }
}

fn since_words(since: Moment) -> String {
    format!("event {}", since.n_entries())
}

/// Prints the answer for one device.
pub(super) fn answer(options: &Options, asked: &Asked<'_>, out: &mut Page) -> Result<Exit, Failure> {
    let history = asked.history();
    let sites = Sites::new(history, options.listing.calls());
    let answer = Answer::of(options, history)?;
    let (bytes, n) = sum(&answer.groups);
    if options.input.json {
        let mut head = json!(answer.new);
        let trust = history.trust();
        let more = json!({"event": answer.moment, "allocated_bytes": bytes, "blocks": n, "is_exact": trust.is_exact()});
        if let (Some(head), Some(more)) = (head.as_object_mut(), more.as_object()) {
            head.extend(more.clone());
        }
        asked.print_list(head, "groups", &answer.groups, options.listing.n, |group| group.bytes, out)?;
        return Ok(Exit::Fine);
    }
    print_text(answer.head(options, history), out)?;
    if !answer.new.is_complete {
        print_text("warning: the oldest events are lost; what they allocated is not counted", out)?;
    }
    // What existed before the history does not matter.
    for warning in history.trust().warnings() {
        print_text(format!("warning: {warning}"), out)?;
    }
    print_groups(options, history, &answer.groups, bytes, &sites, out)?;
    Ok(Exit::Fine)
}

/// Returns the time of the first event of all devices that has one.
fn first_us(snapshot: &Snapshot) -> Option<i64> {
    DeviceId::first(snapshot.device_traces.len())
        .filter_map(|device| snapshot.trace(device).iter().map(|entry| entry.time_us).find(|time| *time != 0))
        .min()
}
