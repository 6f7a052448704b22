//! Parses percentages as users write them.

#![forbid(unsafe_code)]

/// Reads a share in percent: `2%` or `2`.
pub(crate) fn parse(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    let number = number.filter(|number| number.is_finite() && *number >= 0.0);
    // 0.02 may be meant as two percent.
    if number.is_some_and(|number| number > 0.0 && number < 1.0) && !text.ends_with('%') {
        return Err(format!(
            "{text:?} needs a unit: {text}% is less than one percent; 2 and 2% both mean two percent"
        ));
    }
    number.ok_or_else(|| format!("{text:?} is not a share; use for example 20%"))
}
