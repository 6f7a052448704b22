//! The text of a site in a list: its innermost call, its callers, and the first difference from similar sites.
//!
//! A row shows a few calls, with short names and without folders. Two sites that differ only in a call further
//! out, in a folder or in the type of a template would have equal rows. Such rows also show the first call in
//! which they differ, and show it in full if its short text is the same.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use memreel::{
    analysis::{Site, base_name},
    snapshot::Frame,
};

use crate::{
    bytes::Bytes,
    colour::{bold, faint},
    names::short,
    text::clean,
};

/// How a call is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Short,
    /// The whole name, and the path of the file.
    Full,
}

/// The text of a site.
#[derive(Debug)]
pub(crate) enum SiteText<'a> {
    Calls {
        /// Innermost first.
        frames: Vec<&'a Frame>,
        /// The number of innermost frames that are shown.
        n_shown: usize,
        /// The frames in which it differs from other sites of its list, by their places.
        apart: BTreeMap<usize, Form>,
    },
    Other {
        text: String,
        /// The text without roundings and abbreviations.
        full: String,
    },
}

impl<'a> SiteText<'a> {
    /// Returns the text of a stack with these frames, innermost first.
    pub(crate) fn calls(frames: Vec<&'a Frame>, n_shown: usize) -> SiteText<'a> {
        SiteText::Calls { frames, n_shown: n_shown.max(1), apart: BTreeMap::new() }
    }

    /// Returns the text of a site without a stack.
    pub(crate) fn other(site: &Site) -> SiteText<'a> {
        let same = |text: String| (text.clone(), text);
        let (text, full) = match site {
            Site::Size(bytes) => {
                let of = |size: String| format!("(no stack) {size} each");
                (of(Bytes(*bytes).to_string()), of(format!("{bytes} B")))
            }
            Site::Function { name, filename } => {
                let full = format!("{} ({})", clean(name), clean(filename));
                match &**filename {
                    "??" | "" => (short(name), full),
                    file => (format!("{} ({})", short(name), clean(base_name(file))), full),
                }
            }
            Site::File(file) => same(clean(file).into_owned()),
            Site::Scope(scope) if scope.is_empty() => same("(no scope)".to_owned()),
            Site::Scope(scope) => same(clean(scope).into_owned()),
            Site::Name(name) => same(clean(name).into_owned()),
            Site::NoName => same("(no name)".to_owned()),
            Site::NoStack | Site::NoFile => same("(no stack)".to_owned()),
            Site::Before => same("(before the history)".to_owned()),
            _ => same("(other)".to_owned()),
        };
        SiteText::Other { text, full }
    }

    /// Returns a row: figures, the innermost call, and below it its callers.
    pub(crate) fn row(&self, figures: &str) -> String {
        let (bold, faint) = (bold(), faint());
        let mut row = format!("{figures}  {bold}{}{bold:#}", self.first());
        let (callers, n_more) = self.callers();
        if !callers.is_empty() {
            let more = if n_more > 0 { format!(" ← {n_more} more") } else { String::new() };
            let width = figures.chars().count();
            row += &format!("\n{:width$}  {faint}{callers}{more}{faint:#}", "");
        }
        row
    }

    /// Returns the innermost call, or a text in its place.
    fn first(&self) -> String {
        match self {
            SiteText::Calls { frames, .. } => {
                frames.first().map_or_else(|| "(hidden frames)".to_owned(), |frame| self.call(0, frame))
            }
            SiteText::Other { text, .. } => text.clone(),
        }
    }

    /// Returns the callers that are shown, in one line, and the number of calls behind the last of them.
    fn callers(&self) -> (String, usize) {
        let SiteText::Calls { frames, n_shown, apart } = self else { return (String::new(), 0) };
        let (mut line, mut next) = (String::new(), 1);
        let further = apart.keys().copied().filter(|place| place >= n_shown);
        for place in (1..*n_shown).chain(further) {
            let Some(frame) = frames.get(place) else { break };
            let gap = if place > next { "← … " } else { "" };
            let blank = if line.is_empty() { "" } else { " " };
            line += &format!("{blank}{gap}← {}", self.call(place, frame));
            next = place + 1;
        }
        (line, frames.len().saturating_sub(next))
    }

    fn call(&self, place: usize, frame: &Frame) -> String {
        match self {
            SiteText::Calls { apart, .. } if apart.get(&place) == Some(&Form::Full) => {
                format!("{} ({}:{})", clean(&frame.name), clean(&frame.filename), frame.line)
            }
            _ => call(frame),
        }
    }

    /// Returns the text that decides whether readers can tell two sites apart.
    pub(crate) fn visible(&self) -> [String; 2] {
        [self.first(), self.callers().0]
    }
}

/// Adds to the sites of a list the first call in which similar ones differ.
pub(crate) fn tell_apart(sites: &mut [SiteText<'_>]) {
    let mut open = vec![(0..sites.len()).collect::<Vec<usize>>()];
    while let Some(group) = open.pop() {
        let mut of_text: BTreeMap<[String; 2], Vec<usize>> = BTreeMap::new();
        for place in group {
            of_text.entry(sites[place].visible()).or_default().push(place);
        }
        for same in of_text.into_values().filter(|same| same.len() > 1) {
            if add_difference(sites, &same) {
                open.push(same);
            }
        }
    }
}

/// Shows more of some sites with the same text; returns `false` if all of them is shown.
fn add_difference(sites: &mut [SiteText<'_>], same: &[usize]) -> bool {
    let Some((place, form)) = difference(sites, same) else { return false };
    for number in same {
        match &mut sites[*number] {
            SiteText::Calls { apart, .. } => drop(apart.insert(place, form)),
            SiteText::Other { text, full } => text.clone_from(full),
        }
    }
    true
}

/// Returns the first place at which some sites with the same text differ, and the form in which it is not shown
/// yet.
fn difference(sites: &[SiteText<'_>], same: &[usize]) -> Option<(usize, Form)> {
    match &sites[same[0]] {
        SiteText::Calls { frames: first, n_shown, apart } => {
            let calls = |number: &usize| match &sites[*number] {
                SiteText::Calls { frames, .. } => &frames[..],
                SiteText::Other { .. } => &[],
            };
            let longest = same.iter().map(|number| calls(number).len()).max()?;
            let differs = |place: &usize| {
                let key = |frame: Option<&&Frame>| {
                    frame.map(|frame| (frame.name.clone(), frame.filename.clone(), frame.line))
                };
                let one = key(first.get(*place));
                same.iter().any(|number| key(calls(number).get(*place)) != one)
            };
            (0..longest).filter(differs).find_map(|place| match apart.get(&place) {
                None if place >= *n_shown => Some((place, Form::Short)),
                None | Some(Form::Short) => Some((place, Form::Full)),
                Some(Form::Full) => None,
            })
        }
        SiteText::Other { text, full } => (text != full).then_some((0, Form::Full)),
    }
}

/// Returns a call as text: function, file and line.
pub(crate) fn call(frame: &Frame) -> String {
    let file = clean(base_name(&frame.filename));
    match (&*frame.filename, frame.line) {
        ("??" | "", _) => short(&frame.name),
        (_, 0) => format!("{} ({file})", short(&frame.name)),
        (_, line) => format!("{} ({file}:{line})", short(&frame.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(name: &str, filename: &str, line: u64) -> Frame {
        Frame { name: name.into(), filename: filename.into(), line, ..Frame::default() }
    }

    fn rows(stacks: &[Vec<Frame>], n_shown: usize) -> Vec<String> {
        let mut texts: Vec<SiteText<'_>> =
            stacks.iter().map(|frames| SiteText::calls(frames.iter().collect(), n_shown)).collect();
        tell_apart(&mut texts);
        texts.iter().map(|text| text.row("")).collect()
    }

    #[test]
    fn stacks_show_the_call_in_which_they_differ() {
        let deep = |line| {
            let mut frames: Vec<Frame> = (0..6).map(|at| frame(&format!("f{at}"), "/a/m.py", 1)).collect();
            frames[4].line = line;
            frames
        };
        assert_eq!(rows(&[deep(1)], 2), ["  f0 (m.py:1)\n  ← f1 (m.py:1) ← 4 more"]);
        let row = |line| format!("  f0 (m.py:1)\n  ← f1 (m.py:1) ← … ← f4 (m.py:{line}) ← 1 more");
        assert_eq!(rows(&[deep(1), deep(2)], 2), [row(1), row(2)]);
        // Equal stacks remain equal.
        assert_eq!(rows(&[deep(1), deep(1), deep(2)], 2), [row(1), row(1), row(2)]);
    }

    #[test]
    fn folders_and_template_arguments_are_shown_if_they_differ() {
        let long = |of: &str| format!("{}<{of}>::f", "a::".repeat(30));
        let one = |name: &str, file: &str| vec![frame(name, file, 1)];
        assert_eq!(
            rows(&[one("f", "/a/m.py"), one("f", "/b/m.py")], 4),
            ["  f (/a/m.py:1)", "  f (/b/m.py:1)"]
        );
        let both = rows(&[one(&long("int"), "m.h"), one(&long("char"), "m.h")], 4);
        assert!(both[0].contains("<int>") && both[1].contains("<char>"), "{both:?}");
        let mut sizes = [Site::Size(1 << 20), Site::Size((1 << 20) + 1)].map(|site| SiteText::other(&site));
        tell_apart(&mut sizes);
        assert_eq!(sizes[1].row(""), "  (no stack) 1048577 B each");
    }

    #[test]
    fn a_stack_that_ends_earlier_is_told_apart() {
        let stack = |n| (0..n).map(|at| frame(&format!("f{at}"), "m.py", at)).collect::<Vec<_>>();
        let [short, long] = &rows(&[stack(2), stack(3)], 2)[..] else { panic!() };
        assert_ne!(short, long);
        assert!(long.ends_with("← f2 (m.py:2)"), "{long}");
    }
}
