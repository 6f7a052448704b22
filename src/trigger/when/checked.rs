//! Parses values of the variable `MEMREEL` for programs that set it for others.

use crate::process::time::duration;
use crate::trigger::when::grammar;
use memreel_snapshot::words::Result;

/// Checks a value of the variable `MEMREEL` as a process with that environment does.
///
/// ```
/// use memreel::trigger::check;
///
/// check("all,ring=1000000,dump=signal")?;
/// let error = check("all,rong=5").unwrap_err();
/// assert!(error.to_string().starts_with("MEMREEL: unknown option \"rong\" at character 4"), "{error}");
/// # Ok::<(), memreel::Error>(())
/// ```
///
/// # Errors
/// [`Error::is_invalid_option`](crate::Error::is_invalid_option), with the position in the text.
pub fn check(text: &str) -> Result<()> {
    grammar::parse("MEMREEL", text).map(drop)
}

/// Returns the seconds in a time such as `30s`, as in `dump=every:30s`; `None` for another text, such as a size.
///
/// ```
/// use memreel::trigger::seconds;
///
/// assert_eq!(seconds("2min"), Some(120.0));
/// assert_eq!(seconds("10GiB"), None);
/// ```
#[must_use]
pub fn seconds(text: &str) -> Option<f64> {
    duration(text).map(|time| time.as_secs_f64())
}
