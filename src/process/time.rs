//! Times as text: moments in file names, and durations in options.
#![forbid(unsafe_code)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns a UTC time such as `20261122T223015Z`, which sorts like the time itself.
#[must_use]
pub fn time_text(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Returns whether a text has the form of [`time_text`]'s results.
pub(crate) fn is_time(text: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| match at {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    text.len() == TEXT_BYTES && text.bytes().enumerate().all(fits)
}

/// The length of [`time_text`]'s results, up to the year 9999.
pub(crate) const TEXT_BYTES: usize = 16;

/// Returns the year, month and day of a day, counted from 1970-01-01.
fn date(day: u64) -> (u64, u64, u64) {
    // Years start in March, so that a leap day is the last day of its year; 146,097 days are 400 years.
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

const UNITS_MS: [(&str, u64); 4] = [("ms", 1), ("s", 1000), ("min", 60_000), ("h", 3_600_000)];

/// Parses a whole number with a unit, such as `30s`, at least 1 ms; `None` for any other text.
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = text[digits..].trim_start();
    let (_, factor) = UNITS_MS.iter().find(|(name, _)| *name == unit)?;
    let ms = text[..digits].parse::<u64>().ok()?.checked_mul(*factor).filter(|ms| *ms > 0)?;
    Some(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, wanted) in [
            (0, "19700101T000000Z"),
            (951_827_696, "20000229T123456Z"),
            (1_709_251_199, "20240229T235959Z"),
            (1_709_251_200, "20240301T000000Z"),
            (4_107_542_399, "21000228T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            let text = time_text(UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(text, wanted);
            assert!(is_time(&text));
        }
        assert!(!is_time("20240229T23595aZ") && !is_time("20240229T2359591") && !is_time("2024"));
    }

    #[test]
    fn durations_are_read() {
        for (text, ms) in [
            ("30s", Some(30_000)),
            ("1500ms", Some(1500)),
            ("2min", Some(120_000)),
            ("1 h", Some(3_600_000)),
            ("30", None),
            ("0s", None),
            ("-1s", None),
            ("1m", None),
            ("99999999999999999h", None),
            ("", None),
        ] {
            assert_eq!(duration(text), ms.map(Duration::from_millis), "{text}");
        }
    }
}
