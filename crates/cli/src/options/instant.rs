//! Points in time on the command line.

#![forbid(unsafe_code)]

/// A point in time, as typed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Instant {
    /// Microseconds after the first event.
    After(i64),
    /// Microseconds since the Unix epoch.
    Since1970(i64),
}

/// Reads a time after the first event, such as `1.5s`, `200ms` or `70us`, or a number as in `time_us`.
pub(crate) fn parse(text: &str) -> Result<Instant, String> {
    let refuse = || {
        format!(
            "{text:?} is not a time; use for example 1.5s, 200ms, 70us, or a timestamp in microseconds as in time_us"
        )
    };
    if let Ok(time) = text.parse() {
        return Ok(Instant::Since1970(time));
    }
    let units = [("ms", 1e3), ("us", 1.0), ("s", 1e6)];
    let (number, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))
        .ok_or_else(refuse)?;
    let number: f64 = number.trim().parse().map_err(|_| refuse())?;
    #[allow(clippy::cast_possible_truncation)]
    if number.is_finite() && number >= 0.0 {
        Ok(Instant::After((number * factor) as i64))
    } else {
        Err(refuse())
    }
}

impl Instant {
    /// Returns the time in microseconds since the Unix epoch, given that of the first event.
    pub(crate) fn time_us(self, first_us: i64) -> i64 {
        match self {
            Instant::After(after_us) => first_us.saturating_add(after_us),
            Instant::Since1970(time_us) => time_us,
        }
    }
}
