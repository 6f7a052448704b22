//! Moments of a history on the command line.

#![forbid(unsafe_code)]

use memreel_snapshot::{
    Action,
    analysis::{DeviceHistory, EarlierPeak},
    history::{Moment, Trust},
    model::TraceEntry,
};

use crate::{
    failure::Failure,
    text::{Bytes, count},
};

/// When to look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum At {
    /// Before the first event.
    Start,
    /// When the most bytes were in use.
    Peak,
    /// After the last event.
    End,
    /// When the last request failed.
    Oom,
    /// After the event with this number, counted from 0.
    Entry(usize),
}

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

impl At {
    /// Returns the moment in a history.
    pub(crate) fn moment(self, history: &DeviceHistory<'_>) -> Result<Moment, Failure> {
        let n = history.entries().len();
        match self {
            At::Start => Ok(Moment::START),
            At::Peak => Ok(history.peak().moment),
            At::End => Ok(history.end()),
            At::Oom => last_oom(history).ok_or_else(|| {
                Failure::usage(format!("no request failed on device {}; use peak or end", history.device()))
            }),
            At::Entry(entry) if entry < n => Ok(Moment::after(entry)),
            At::Entry(entry) => {
                let known =
                    if n == 0 { "there is no history".to_owned() } else { format!("the last is {}", n - 1) };
                Err(Failure::usage(format!("no event {entry} on device {}: {known}", history.device())))
            }
        }
    }
}

/// Returns the moment of the last request that failed.
pub(crate) fn last_oom(history: &DeviceHistory<'_>) -> Option<Moment> {
    let is_oom = |entry: &TraceEntry| entry.action == Some(Action::Oom);
    history.entries().iter().rposition(is_oom).map(Moment::after)
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
