//! The moment of `--from`, at which a replay switches its settings.

#![forbid(unsafe_code)]

use memreel_snapshot::{analysis::DeviceHistory, history::Moment};

use crate::{
    failure::Failure,
    options::instant::{self, Instant},
};

/// Returns the first entry under the new settings: that of a number, the first in a scope, or the first that is not
/// older than a time.
pub(super) fn entry(text: &str, history: &DeviceHistory<'_>) -> Result<usize, Failure> {
    let (n, device) = (history.entries().len(), history.device());
    if let Ok(entry) = text.parse::<usize>() {
        return match entry < n {
            true => Ok(entry),
            false => Err(Failure::usage(format!("no event {entry} on device {device}: it has {n}"))),
        };
    }
    let moment: Moment = match instant::parse(text) {
        Ok(at @ Instant::After(_)) => {
            let first_us = history.entries().iter().map(|entry| entry.time_us).find(|time_us| *time_us > 0);
            history.moment_before(at.time_us(first_us.unwrap_or(0)))
        }
        _ => history.scopes().start_of(text).map_err(|error| {
            let moments = "--from takes an event number, a scope, or a time such as 1.5s";
            Failure::usage(format!("device {device}: {error}; {moments}"))
        })?,
    };
    Ok(moment.n_entries())
}
