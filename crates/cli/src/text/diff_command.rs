//! The command that compares a run with another that needs less.

#![forbid(unsafe_code)]

use memreel_snapshot::DeviceId;

use super::{fit::command, page::Page, shell_word};

/// Returns the command to ask next about a run that needs more than another, given the moment, the device where there are
/// several, and the names of both files.
pub(crate) fn what_it_has_more(
    at: &str,
    device: Option<DeviceId>,
    before: &str,
    after: &str,
    page: &Page,
) -> String {
    let (before, after) = (shell_word(before), shell_word(after));
    let device = device.map(|device| device.to_string());
    let mut words = vec!["memreel", "diff", "--at", at];
    words.extend(device.iter().flat_map(|device| ["--device", device]));
    words.extend([&*before, &*after]);
    command("see what grew: ", &words, page)
}
