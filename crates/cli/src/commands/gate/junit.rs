//! The results of `memreel gate` as JUnit XML.

#![forbid(unsafe_code)]

use memreel_snapshot::analysis::Check;

use super::check_line::line;
use crate::text::escape_xml;

/// The results for one device of one file, or for a run.
pub(super) struct Gated {
    pub(super) place: String,
    pub(super) checks: Vec<Check>,
    /// The largest holders, if the first limit is exceeded.
    pub(super) most: Option<String>,
    /// What fails in addition to the checks: the name of the test, and why.
    pub(super) failures: Vec<(&'static str, String)>,
}

impl Gated {
    /// Returns the failure of what has no checks.
    pub(super) fn of_files(place: &str, what: &'static str, why: String) -> Gated {
        Gated { place: place.to_owned(), checks: Vec::new(), most: None, failures: vec![(what, why)] }
    }
}

/// Returns JUnit XML: a test suite for each device, a test case for each check.
pub(super) fn junit(results: &[Gated]) -> String {
    let mut text =
        String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"memreel gate\">\n");
    for Gated { place, checks, most, failures } in results {
        let mut most = most.as_deref();
        let n_failed = checks.iter().filter(|check| !check.is_passed).count() + failures.len();
        let n = checks.len() + failures.len();
        let place = escape_xml(place);
        text += &format!("  <testsuite name=\"{place}\" tests=\"{n}\" failures=\"{n_failed}\">\n");
        for check in checks {
            let of = if check.is_baseline { " against baseline" } else { "" };
            let case =
                format!("    <testcase classname=\"{place}\" name=\"{}{of}\"", escape_xml(&check.what));
            text += &match check.is_passed {
                true => format!("{case}/>\n"),
                false => {
                    let most =
                        most.take().map_or_else(String::new, |most| format!("; most is held by {most}"));
                    let why = line(check) + &most;
                    format!("{case}><failure message=\"{}\"/></testcase>\n", escape_xml(&why))
                }
            };
        }
        for (name, why) in failures {
            let why = escape_xml(why);
            text += &format!(
                "    <testcase classname=\"{place}\" name=\"{name}\"><failure message=\"{why}\"/></testcase>\n"
            );
        }
        text += "  </testsuite>\n";
    }
    text + "</testsuites>\n"
}
