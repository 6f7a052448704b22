//! Times as text, in the names of files.
#![forbid(unsafe_code)]

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns a time of UTC such as `20261122T223015Z`, which sorts like the time itself.
pub(super) fn text(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Returns whether a text has the form of [`text`]'s results.
pub(super) fn is_time(text: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| match at {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    text.len() == TEXT_BYTES && text.bytes().enumerate().all(fits)
}

/// The length of [`text`]'s results, up to the year 9999.
pub(super) const TEXT_BYTES: usize = 16;

/// Returns the year, month and day of a day, counted from 1970-01-01.
fn date(day: u64) -> (u64, u64, u64) {
    // Years begin in March, so that a leap day is the last of its year; 146,097 days are 400 years.
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
            let text = text(UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(text, wanted);
            assert!(is_time(&text));
        }
        assert!(!is_time("20240229T23595aZ") && !is_time("20240229T2359591") && !is_time("2024"));
    }
}
