//! Prints a site in a list: its innermost call, its callers, and the first difference from similar sites.
//!
//! A row shows a few calls, with short names and without folders. Two sites that differ only in a call further
//! out, in a folder or in the type of a template would have equal rows. Such rows also show the first call in
//! which they differ, and show it in full if its short text is the same.

#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
};

use memreel_snapshot::{
    analysis::{Call, NO_STACK, Site, is_own},
    model::Frame,
};

use super::{
    bytes::Bytes,
    clean, clean_base_name, clean_display,
    fit::{broken, columns, fill, fits, path_ending},
    labels::{pool_text, stream},
    names::{plain, short},
    page::Page,
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
        /// Innermost first; at least one.
        frames: Vec<&'a Frame>,
        /// The places of the frames that are shown.
        shown: BTreeSet<usize>,
        /// Whether paths are whole.
        has_paths: bool,
        /// The frames that are shown because other sites of the list differ in them, by their places.
        differing: BTreeMap<usize, Form>,
    },
    Function {
        name: String,
        /// Its file, in brackets.
        place: Option<String>,
        full: String,
        is_full: bool,
    },
    File {
        path: String,
        is_full: bool,
    },
    Other {
        text: String,
        /// The text without roundings.
        full: String,
    },
}

impl<'a> SiteText<'a> {
    /// Returns the text of a stack with these frames, innermost first, of which `n` are shown.
    pub(crate) fn calls(frames: Vec<&'a Frame>, n: usize, has_paths: bool) -> SiteText<'a> {
        if frames.is_empty() {
            return SiteText::other(&Site::NoStack, NO_STACK);
        }
        let shown = shown(&frames, n);
        SiteText::Calls { frames, shown, has_paths, differing: BTreeMap::new() }
    }

    /// Returns the text of a site without a stack, which has these words in its place.
    pub(crate) fn other(site: &Site, no_stack: &str) -> SiteText<'a> {
        let same = |text: String| (text.clone(), text);
        let (text, full) = match site {
            Site::Size(bytes) => {
                let of = |size: String| format!("{no_stack} {size} each");
                (of(Bytes(*bytes).to_string()), of(format!("{bytes} B")))
            }
            Site::Function { name, filename } => {
                let place = match &**filename {
                    "??" | "" => None,
                    file => Some(format!("({})", clean_base_name(file))),
                };
                let full = format!("{} ({})", clean(name), clean(filename));
                return SiteText::Function { name: clean(name).into_owned(), place, full, is_full: false };
            }
            Site::File(file) if matches!(&**file, "" | "??") => same("(no file)".to_owned()),
            Site::Line { filename, line } => {
                let path = format!("{}:{line}", clean(filename));
                return SiteText::File { path, is_full: false };
            }
            Site::Stream(of) => same(stream(*of)),
            Site::Pool(of) => same(of.map_or_else(|| "(unknown)".to_owned(), pool_text)),
            Site::File(file) => return SiteText::File { path: clean(file).into_owned(), is_full: false },
            Site::Scope(scope) if scope.is_empty() => same("(no scope)".to_owned()),
            Site::Scope(scope) => same(clean_display(scope)),
            Site::Name(names) => same(clean_display(names)),
            Site::Owner(owner) => same(clean(owner).into_owned()),
            Site::NoName => same("(no name)".to_owned()),
            Site::NoStack | Site::NoFile => same(no_stack.to_owned()),
            Site::Before => same("(before the history)".to_owned()),
            _ => same("(other)".to_owned()),
        };
        SiteText::Other { text, full }
    }

    /// Returns a row: figures, the innermost call, and below it its callers. Calls that do not fit the line are
    /// shortened, and callers are put on more lines; figures are never shortened.
    pub(crate) fn row(&self, figures: &str, page: &Page) -> String {
        let (bold, faint) = (page.bold(), page.faint());
        let indent = columns(figures) + 2;
        let room = page.width_left(indent);
        let blank = " ".repeat(indent);
        let first = self.first(room).into_iter().map(|line| format!("{bold}{line}{bold:#}"));
        let (mut callers, n_more) = self.callers(room);
        if n_more > 0 && !callers.is_empty() {
            callers.push(format!("← {n_more} more"));
        }
        let callers = fill(&callers, room, room).into_iter().map(|line| format!("{faint}{line}{faint:#}"));
        let lines: Vec<String> = first.chain(callers).collect();
        format!("{figures}  {}", lines.join(&format!("\n{blank}")))
    }

    /// Returns the innermost call, or a text in its place, as lines of at most `room` columns.
    fn first(&self, room: usize) -> Vec<String> {
        match self {
            SiteText::Calls { frames, .. } => self.call(0, frames[0], room),
            SiteText::Function { full, is_full: true, .. } | SiteText::File { path: full, is_full: true } => {
                broken(full, room)
            }
            SiteText::Function { name, place, .. } => named(name, place.as_deref(), room),
            SiteText::File { path, .. } => vec![path_ending(path, room)],
            SiteText::Other { text, .. } => broken(text, room),
        }
    }

    /// Returns the callers that are shown, in pieces of at most `room` columns, and the number of calls after them.
    fn callers(&self, room: usize) -> (Vec<String>, usize) {
        let SiteText::Calls { frames, shown, differing, .. } = self else { return (Vec::new(), 0) };
        let (mut pieces, mut next) = (Vec::new(), 1);
        let places: BTreeSet<usize> = shown.iter().chain(differing.keys()).copied().collect();
        for place in places.into_iter().skip_while(|place| *place == 0) {
            let Some(frame) = frames.get(place) else { break };
            if place > next {
                pieces.push(format!("← {} more", place - next));
            }
            let mut lines = self.call(place, frame, room.saturating_sub(2));
            for (at, line) in lines.iter_mut().enumerate() {
                line.insert_str(0, if at == 0 { "← " } else { "  " });
            }
            pieces.append(&mut lines);
            next = place + 1;
        }
        (pieces, frames.len().saturating_sub(next))
    }

    fn call(&self, place: usize, frame: &Frame, room: usize) -> Vec<String> {
        match self {
            SiteText::Calls { differing, has_paths, .. }
                if *has_paths || differing.get(&place) == Some(&Form::Full) =>
            {
                let text = format!("{} ({}:{})", clean(&frame.name), clean(&frame.filename), frame.line);
                broken(&text, room)
            }
            _ => call(frame, room),
        }
    }

    /// Returns the text that decides whether readers can see a difference between two sites.
    fn visible(&self, room: usize) -> [Vec<String>; 2] {
        [self.first(room), self.callers(room).0]
    }

    /// Returns the calls that are shown, in one line.
    pub(crate) fn plain(&self) -> String {
        self.visible(usize::MAX).concat().join(" ")
    }
}

/// Returns the places of the `n` frames that are shown: the innermost, those in files of the program's own, which say
/// what the program did, and then the inner ones. Of a stack without such files the outermost is shown too.
fn shown(frames: &[&Frame], n: usize) -> BTreeSet<usize> {
    let n = n.clamp(1, frames.len());
    let own = (1..frames.len()).filter(|place| is_own(frames[*place]));
    let mut shown: BTreeSet<usize> = iter::once(0).chain(own.take(n - 1)).collect();
    if shown.len() == 1 && n > 2 && !is_own(frames[0]) {
        shown.insert(frames.len() - 1);
    }
    let mut inner = 1..frames.len();
    while shown.len() < n {
        shown.extend(inner.next());
    }
    shown
}

/// Adds to the sites of a list, which have `room` columns, the first call in which similar ones differ.
pub(crate) fn add_differences(sites: &mut [SiteText<'_>], room: usize) {
    let mut open = vec![(0..sites.len()).collect::<Vec<usize>>()];
    while let Some(group) = open.pop() {
        let mut of_text: BTreeMap<[Vec<String>; 2], Vec<usize>> = BTreeMap::new();
        for place in group {
            of_text.entry(sites[place].visible(room)).or_default().push(place);
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
            SiteText::Calls { differing, .. } => drop(differing.insert(place, form)),
            SiteText::Function { is_full, .. } | SiteText::File { is_full, .. } => *is_full = true,
            SiteText::Other { text, full } => text.clone_from(full),
        }
    }
    true
}

/// Returns the first place at which some sites with the same text differ, and the form in which it is not shown
/// yet.
fn difference(sites: &[SiteText<'_>], same: &[usize]) -> Option<(usize, Form)> {
    match &sites[same[0]] {
        SiteText::Calls { frames: first, shown, differing, .. } => {
            let calls = |number: &usize| match &sites[*number] {
                SiteText::Calls { frames, .. } => &frames[..],
                _ => &[],
            };
            let longest = same.iter().map(|number| calls(number).len()).max()?;
            let is_same = |one: Option<&&Frame>, other: Option<&&Frame>| match (one, other) {
                (Some(one), Some(other)) => one.is_same_call(other),
                (one, other) => one.is_none() && other.is_none(),
            };
            let differs = |place: &usize| {
                let one = first.get(*place);
                same.iter().any(|number| !is_same(one, calls(number).get(*place)))
            };
            (0..longest).filter(differs).find_map(|place| match differing.get(&place) {
                None if !shown.contains(&place) => Some((place, Form::Short)),
                None | Some(Form::Short) => Some((place, Form::Full)),
                Some(Form::Full) => None,
            })
        }
        SiteText::Function { is_full, .. } | SiteText::File { is_full, .. } => {
            (!is_full).then_some((0, Form::Full))
        }
        SiteText::Other { text, full } => (text != full).then_some((0, Form::Full)),
    }
}

/// The most columns of the name of a function, where lines have an end: names of templates can fill a screen.
const NAME_COLUMNS: usize = 60;

/// The least columns of a name that shares a line with its file.
const LEAST_NAME_COLUMNS: usize = 16;

/// Returns how many columns a name may take in a line of `room` columns.
fn name_columns(room: usize) -> usize {
    // What is left of a line without an end has no end.
    if room > usize::MAX / 2 { room } else { room.min(NAME_COLUMNS) }
}

/// Returns a call as pieces of at most `room` columns: function, file and line. The name is shortened before the file.
pub(crate) fn call(frame: &Frame, room: usize) -> Vec<String> {
    let place = Call(frame).place().map(|place| clean(&place).into_owned());
    named(&frame.name, place.as_deref(), room)
}

/// Returns a name and its place as pieces of at most `room` columns: one if both fit. A place has a piece of its own
/// before a name loses its middle.
fn named(name: &str, place: Option<&str>, room: usize) -> Vec<String> {
    let Some(place) = place else { return vec![short(name, name_columns(room))] };
    let left = name_columns(room.saturating_sub(columns(place) + 1));
    let is_whole = |room: usize| fits(&plain(name, room), room);
    if is_whole(left) || left >= LEAST_NAME_COLUMNS && !is_whole(name_columns(room)) {
        return vec![format!("{} {place}", short(name, left))];
    }
    [vec![short(name, name_columns(room))], broken(place, room)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(name: &str, filename: &str, line: u64) -> Frame {
        Frame { name: name.into(), filename: filename.into(), line, ..Frame::default() }
    }

    fn rows(stacks: &[Vec<Frame>], n_shown: usize) -> Vec<String> {
        let mut texts: Vec<SiteText<'_>> =
            stacks.iter().map(|frames| SiteText::calls(frames.iter().collect(), n_shown, false)).collect();
        add_differences(&mut texts, usize::MAX);
        texts.iter().map(|text| text.row("", &Page::in_memory(None))).collect()
    }

    #[test]
    fn stacks_show_the_call_in_which_they_differ() {
        let deep = |line| {
            let mut frames: Vec<Frame> = (0..6).map(|at| frame(&format!("f{at}"), "/a/m.py", 1)).collect();
            frames[4].line = line;
            frames
        };
        assert_eq!(rows(&[deep(1)], 2), ["  f0 (m.py:1)\n  ← f1 (m.py:1) ← 4 more"]);
        let row = |line| format!("  f0 (m.py:1)\n  ← f1 (m.py:1) ← 2 more ← f4 (m.py:{line}) ← 1 more");
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
        let mut sizes =
            [Site::Size(1 << 20), Site::Size((1 << 20) + 1)].map(|site| SiteText::other(&site, NO_STACK));
        add_differences(&mut sizes, usize::MAX);
        assert_eq!(sizes[1].row("", &Page::in_memory(None)), "  (no stack) 1048577 B each");
    }

    #[test]
    fn a_stack_that_ends_earlier_has_another_text() {
        let stack = |n| (0..n).map(|at| frame(&format!("f{at}"), "m.py", at)).collect::<Vec<_>>();
        let [short, long] = &rows(&[stack(2), stack(3)], 2)[..] else { panic!() };
        assert_ne!(short, long);
        assert!(long.ends_with("← f2 (m.py:2)"), "{long}");
    }
}
