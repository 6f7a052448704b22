//! Prints an explanation as text.

use std::fmt::Write;

use super::explanation::Explanation;
use crate::{
    analysis::{Bytes, Call, Group, ShownFrames, Site},
    model::StackIndex,
};

/// How many calls of a stack are printed: for the request, and for the stacks that hold memory.
const N_OWN_CALLS: usize = 8;
const N_CALLS: usize = 4;

impl Explanation<'_, '_> {
    /// Returns the explanation as lines of text: the causes, the figures, the stack of the request, and the `n` stacks that
    /// hold the most memory.
    #[must_use]
    pub fn text(&self, n: usize) -> String {
        let (report, shown) = (&self.report, &self.shown);
        let mut text = String::new();
        for cause in self.causes() {
            line(&mut text, &format!("{}: {}", cause.kind.name(), cause.finding));
            cause.advice.iter().for_each(|advice| line(&mut text, &format!("  {advice}")));
        }
        for (name, value) in self.figures() {
            line(&mut text, &format!("  {name:24}  {value}"));
        }
        self.notes().iter().for_each(|note| line(&mut text, &format!("  {note}")));
        if let Some(stack) = report.stack {
            line(&mut text, &format!("requested by {}", calls(shown, stack, N_OWN_CALLS)));
        }
        for (what, bytes, groups) in [
            ("live", report.totals.allocated_bytes, &self.live),
            ("pending", report.pending_bytes, &self.pending),
        ] {
            list(&mut text, what, bytes, &groups[..groups.len().min(n)], shown);
        }
        text.truncate(text.trim_end().len());
        text
    }
}

impl Explanation<'_, '_> {
    /// Returns a site in a few words: the call that allocated, and the innermost one in the program's own files.
    pub(super) fn site(&self, site: &Site) -> String {
        let Site::Stack(stack) = site else { return no_stack(&self.shown, site) };
        let innermost = self.shown.innermost(*stack).map(|frame| Call(frame).to_string());
        let own = self.shown.own(*stack).map(|frame| Call(frame).to_string());
        match (innermost, own) {
            (Some(innermost), Some(own)) if own != innermost => format!("{innermost} ← {own}"),
            (Some(innermost), _) => innermost,
            (None, _) => self.shown.no_stack().to_owned(),
        }
    }
}

fn no_stack(shown: &ShownFrames<'_>, site: &Site) -> String {
    match site {
        Site::Size(bytes) => format!("{} {} each", shown.no_stack(), Bytes(*bytes)),
        _ => shown.no_stack().to_owned(),
    }
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// Adds the groups that hold the most of some bytes, one line each.
fn list(text: &mut String, what: &str, of_bytes: u64, groups: &[Group], shown: &ShownFrames<'_>) {
    if groups.is_empty() {
        return;
    }
    line(text, &format!("the largest of {} {what}:", Bytes(of_bytes)));
    for group in groups {
        // Writing to a text cannot fail.
        let _ = write!(text, "{:>12} in {} ", Bytes(group.bytes).to_string(), group.n_blocks);
        let blocks = if group.n_blocks == 1 { "block" } else { "blocks" };
        let site = match &group.site {
            Site::Stack(stack) => calls(shown, *stack, N_CALLS),
            site => no_stack(shown, site),
        };
        line(text, &format!("{blocks}: {site}"));
    }
}

/// Returns the first calls of a stack in one line, innermost first.
fn calls(shown: &ShownFrames<'_>, stack: StackIndex, n: usize) -> String {
    let frames: Vec<_> = shown.identifying_frames(stack).collect();
    let mut texts: Vec<String> = frames.iter().take(n).map(|frame| Call(frame).to_string()).collect();
    if texts.is_empty() {
        return shown.no_stack().to_owned();
    }
    if frames.len() > n {
        texts.push(format!("{} more", frames.len() - n));
    }
    texts.join(" ← ")
}
