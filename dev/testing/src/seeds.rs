//! The seeds of a property test, which an environment variable may choose.
#![forbid(unsafe_code)]

use std::{env, ops::Range};

/// Returns the seeds that a variable names: a number of them, or a range such as `1000..2000`.
///
/// # Panics
/// The variable has another value.
pub fn seeds(variable: &str, default: Range<u64>) -> Range<u64> {
    let Ok(asked) = env::var(variable) else { return default };
    let number = |text: &str| {
        text.trim().parse::<u64>().unwrap_or_else(|_| panic!("{variable} is a number or a range: {asked:?}"))
    };
    match asked.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => 0..number(&asked),
    }
}
