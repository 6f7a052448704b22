//! Moments of a history on the command line.

#![forbid(unsafe_code)]

use memreel_answers::At;
use memreel_snapshot::{
    analysis::{DeviceHistory, EarlierPeak},
    history::{Moment, Trust},
};

use crate::text::{Bytes, count};

/// Reads `start`, `peak`, `oom`, `end`, `now` (the end) or the number of an event.
pub(crate) fn parse(text: &str) -> Result<At, String> {
    match text {
        "start" => Ok(At::Start),
        "peak" => Ok(At::Peak),
        "end" | "now" => Ok(At::End),
        "oom" => Ok(At::Oom),
        _ => text
            .parse()
            .map(At::Entry)
            .map_err(|_| "not a moment; use an event number, start, peak, oom or end".to_owned()),
    }
}

/// Returns how long a history is, as the end of a count of its events.
pub(crate) fn span_words(history: &DeviceHistory<'_>) -> String {
    #[allow(clippy::cast_precision_loss)]
    let seconds = |span_us: i64| format!(" in {:.3} s", span_us as f64 / 1e6);
    match history.entries().len() {
        0 | 1 => String::new(),
        _ => history.span_us().map_or_else(|| ", no times recorded".to_owned(), seconds),
    }
}

/// Puts a moment into words.
pub(crate) fn words(history: &DeviceHistory<'_>, moment: Moment) -> String {
    match moment.entry() {
        None if history.entries().is_empty() => "at the end (no history)".to_owned(),
        None => "before event 0".to_owned(),
        Some(entry) if moment == history.end() => format!("at the end (event {entry})"),
        Some(entry) => format!("after event {entry} of {}", history.entries().len()),
    }
}

/// Returns words for the events that a figure covers, if the others are lost.
pub(crate) fn of_the_last(trust: &Trust) -> String {
    format!("of the last {}", count(trust.n_entries, "event"))
}

/// Returns words for a peak that is not among the events.
pub(crate) fn earlier(history: &DeviceHistory<'_>, peak: &EarlierPeak) -> String {
    let totals = peak.totals();
    let first = history.entries().first().map(|entry| entry.time_us);
    let before = first.and_then(|first_us| u64::try_from(first_us).ok()?.checked_sub(peak.time_us));
    #[allow(clippy::cast_precision_loss, reason = "to be printed")]
    let when = match before {
        Some(us) if peak.time_us > 0 => format!("{:.3} s before event 0", us as f64 / 1e6),
        _ => "before event 0".to_owned(),
    };
    format!("{} in use in {} {when}", Bytes(totals.active_bytes), count(totals.n_blocks, "block"))
}
