//! Points in time on the command line.

#![forbid(unsafe_code)]

pub(crate) use memreel_answers::Instant;

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
