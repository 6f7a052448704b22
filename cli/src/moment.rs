//! Moments of a history as the command line names them.

use memreel::{analysis::state::DeviceHistory, history::Moment};

use crate::input::Failure;

/// When to look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum At {
    /// Before the first event.
    Start,
    /// When most was in use.
    Peak,
    /// After the last event.
    End,
    /// After the event of this number, counted from 0.
    Entry(usize),
}

pub(crate) fn parse(text: &str) -> Result<At, String> {
    match text {
        "start" => Ok(At::Start),
        "peak" => Ok(At::Peak),
        "end" | "now" => Ok(At::End),
        _ => text
            .parse()
            .map(At::Entry)
            .map_err(|_| "say the number of an event, start, peak or end".to_owned()),
    }
}

impl At {
    /// The moment of a history.
    pub(crate) fn of(self, history: &DeviceHistory<'_>) -> Result<Moment, Failure> {
        let n = history.entries().len();
        match self {
            At::Start => Ok(Moment::START),
            At::Peak => Ok(history.peak().0),
            At::End => Ok(history.end()),
            At::Entry(entry) if entry < n => Ok(Moment::after(entry)),
            At::Entry(entry) => {
                let known =
                    if n == 0 { "there is no history".to_owned() } else { format!("the last is {}", n - 1) };
                Err(Failure::usage(format!("no event {entry}: {known}")))
            }
        }
    }
}

/// A moment in words.
pub(crate) fn words(history: &DeviceHistory<'_>, moment: Moment) -> String {
    match moment.entry() {
        None if history.entries().is_empty() => "at the end (no history)".to_owned(),
        None => "before event 0".to_owned(),
        Some(entry) if moment == history.end() => format!("at the end (event {entry})"),
        Some(entry) => format!("after event {entry} of {}", history.entries().len()),
    }
}
