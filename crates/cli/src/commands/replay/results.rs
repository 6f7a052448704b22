//! The results of `memreel replay`; settings with the same result share a row.

#![forbid(unsafe_code)]

use memreel::whatif::{FailedRequest, ReplayAnswer, ranked};

/// A result, with all settings that gave it.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    /// At least one.
    answers: Vec<&'a ReplayAnswer>,
}

/// Returns a row for each answer, in their order.
pub(super) fn each(answers: &[ReplayAnswer]) -> Vec<Shared<'_>> {
    answers.iter().map(|answer| Shared { answers: vec![answer] }).collect()
}

/// Returns the distinct results, the best first ([`ranked`]). Of settings with the same result the one with the fewest
/// options comes first, but the recorded one before all.
pub(super) fn distinct<'a>(answers: &'a [ReplayAnswer], recorded: &str) -> Vec<Shared<'a>> {
    let mut rows: Vec<Shared<'a>> = Vec::new();
    for answer in ranked(answers, recorded) {
        match rows.iter_mut().find(|row| figures(row.answers[0]) == figures(answer)) {
            Some(row) => row.answers.push(answer),
            None => rows.push(Shared { answers: vec![answer] }),
        }
    }
    for row in &mut rows {
        row.answers.sort_by_key(|answer| (answer.conf != recorded, answer.num_options(), answer.conf.len()));
    }
    rows
}

/// Returns what the table shows of an answer.
fn figures(answer: &ReplayAnswer) -> ([u64; 9], Option<FailedRequest>) {
    let outcome = &answer.outcome;
    let numbers = [
        outcome.reserved_peak_bytes,
        answer.spread().highest_bytes,
        outcome.allocated_peak_bytes,
        outcome.waste_at_peak_bytes,
        outcome.num_device_alloc,
        outcome.num_device_free,
        outcome.num_alloc_retries,
        outcome.num_ooms,
        outcome.n_priors_refused,
    ];
    (numbers, outcome.first_oom)
}

impl<'a> Shared<'a> {
    /// The answer whose setting names the row.
    pub(super) fn first(&self) -> &'a ReplayAnswer {
        self.answers[0]
    }

    /// Whether the answer of a setting is among them.
    pub(super) fn has(&self, conf: &str) -> bool {
        self.answers.iter().any(|answer| answer.conf == conf)
    }

    /// Returns the other settings as text; those that differ in one value are combined.
    pub(super) fn others(&self) -> Vec<String> {
        texts(self.answers[1..].iter().map(|answer| &*answer.conf))
    }
}

/// Returns settings as text; those that differ in the values of one key are combined.
fn texts<'a>(confs: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut families: Vec<Family<'a>> = confs.map(Family::new).collect();
    // Families that were joined may have become alike in all other keys.
    let mut n_before = families.len() + 1;
    while families.len() < n_before {
        n_before = families.len();
        for family in std::mem::take(&mut families) {
            if !families.iter_mut().any(|known| known.join(&family)) {
                families.push(family);
            }
        }
    }
    families.iter().map(Family::text).collect()
}

/// Returns a setting as it is shown.
pub(super) fn name(conf: &str) -> &str {
    if conf.is_empty() { "(defaults)" } else { conf }
}

/// Settings with the same keys: every combination of the values of each key.
#[derive(Debug)]
struct Family<'a> {
    parts: Vec<(&'a str, Vec<&'a str>)>,
}

impl<'a> Family<'a> {
    fn new(conf: &'a str) -> Family<'a> {
        let part = |part: &'a str| {
            let (key, value) = part.split_once(':').unwrap_or((part, ""));
            (key, vec![value])
        };
        Family { parts: name(conf).split(',').map(part).collect() }
    }

    /// Adds the settings of another family; returns `false` if it differs in the values of several keys.
    fn join(&mut self, other: &Family<'a>) -> bool {
        let keys = |family: &Family<'a>| family.parts.iter().map(|(key, _)| *key).collect::<Vec<_>>();
        if keys(self) != keys(other) {
            return false;
        }
        let differs = |place: &usize| self.parts[*place].1 != other.parts[*place].1;
        let places: Vec<usize> = (0..self.parts.len()).filter(differs).collect();
        let [place] = places[..] else { return false };
        self.parts[place].1.extend(&other.parts[place].1);
        true
    }

    /// Returns the settings as text, several values in braces.
    fn text(&self) -> String {
        let part = |(key, values): &(&str, Vec<&str>)| match &values[..] {
            [""] => (*key).to_owned(),
            [value] => format!("{key}:{value}"),
            values => format!("{key}:{{{}}}", values.join(",")),
        };
        self.parts.iter().map(part).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_differ_in_one_value_are_one_text() {
        let texts = |confs: &[&'static str]| texts(confs.iter().copied());
        assert_eq!(texts(&["", "a:1", "a:2", "a:1,b:1"]), ["(defaults)", "a:{1,2}", "a:1,b:1"]);
        assert_eq!(texts(&["a:1,b:1", "a:2,b:1", "a:1,b:2", "a:3,b:1"]), ["a:{1,2,3},b:1", "a:1,b:2"]);
        // Every combination of two keys.
        assert_eq!(texts(&["a:1,b:1", "a:1,b:2", "a:2,b:1", "a:2,b:2"]), ["a:{1,2},b:{1,2}"]);
    }
}
