//! Sites of allocations: the innermost call, and its callers.

#![forbid(unsafe_code)]

use memreel::{
    Snapshot,
    analysis::{AtSite, Group, ShownFrames, Site, SiteFrames, WithFrames, base_name},
    snapshot::{Frame, StackIndex},
};

use crate::{
    bytes::Bytes,
    colour::{bold, faint},
    names::short,
    text::{clean, percent},
};

/// Prints the sites of one snapshot.
pub(crate) struct Sites<'a> {
    snapshot: &'a Snapshot,
    shown: ShownFrames<'a>,
    n_frames: usize,
}

impl<'a> Sites<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, n_frames: usize) -> Sites<'a> {
        Sites { snapshot, shown: ShownFrames::new(snapshot), n_frames }
    }

    /// Returns the frames that identify the code that allocated, innermost first.
    fn frames(&self, stack: StackIndex) -> Vec<&'a Frame> {
        self.shown.identifying(stack).map(|frame| self.snapshot.stacks.frame(frame)).collect()
    }

    /// Returns the innermost call, or a text in its place.
    pub(crate) fn first(&self, site: &Site) -> String {
        match site {
            Site::Stack(stack) => {
                let frames = self.frames(*stack);
                frames.first().map_or_else(|| "(hidden frames)".to_owned(), |frame| call(frame))
            }
            Site::Size(bytes) => format!("(no stack) {} each", Bytes(*bytes)),
            Site::Function { name, filename: file } => match &**file {
                "??" | "" => short(name),
                file => format!("{} ({})", short(name), clean(base_name(file))),
            },
            Site::File(file) => clean(file).into_owned(),
            Site::Scope(scope) if scope.is_empty() => "(no scope)".to_owned(),
            Site::Scope(scope) => clean(scope).into_owned(),
            Site::NoStack => "(no stack)".to_owned(),
            Site::Before => "(before the history)".to_owned(),
            _ => "(other)".to_owned(),
        }
    }

    /// Returns the callers of the innermost call, in one line; `None` if there are none to show.
    pub(crate) fn callers(&self, site: &Site) -> Option<String> {
        let Site::Stack(stack) = site else { return None };
        let frames = self.frames(*stack);
        let callers = frames.get(1..).unwrap_or_default();
        let shown: Vec<String> =
            callers.iter().take(self.n_frames.saturating_sub(1)).map(|frame| call(frame)).collect();
        let n_more = callers.len() - shown.len();
        let more =
            if n_more > 0 && !shown.is_empty() { format!(" ← {n_more} more") } else { String::new() };
        (!shown.is_empty()).then(|| format!("← {}{more}", shown.join(" ← ")))
    }

    /// Returns a row for a site: figures, the innermost call, and below it its callers.
    pub(crate) fn row(&self, figures: &str, site: &Site) -> String {
        let (bold, faint) = (bold(), faint());
        let mut row = format!("{figures}  {bold}{}{bold:#}", self.first(site));
        if let Some(callers) = self.callers(site) {
            row += &format!("\n{:width$}  {faint}{callers}{faint:#}", "", width = figures.chars().count());
        }
        row
    }

    /// Returns the heading of the columns of [`Sites::group`].
    pub(crate) fn heading() -> String {
        let faint = faint();
        format!("{faint}{:>7} {:>11} {:>6}  allocated by ← called by{faint:#}", "share", "bytes", "blocks")
    }

    /// Returns a row for a group: its share, bytes and number of blocks, and its site.
    pub(crate) fn group(&self, group: &Group, of_bytes: u64) -> String {
        let figures = format!(
            "{} {:>11} {:>6}",
            percent(group.bytes, of_bytes),
            Bytes(group.bytes).to_string(),
            group.n_blocks
        );
        self.row(&figures, &group.site)
    }

    /// Returns every shown frame of a stack, innermost first, for JSON.
    pub(crate) fn all_frames(&self, stack: StackIndex) -> Vec<&'a Frame> {
        self.shown.frames(stack).collect()
    }

    /// Returns a site with every shown frame, innermost first, for JSON.
    pub(crate) fn site_frames<'s>(&'s self, site: &'s Site) -> SiteFrames<'s> {
        SiteFrames::new(site, &self.shown)
    }

    /// Returns a result with every shown frame of its site, for JSON.
    pub(crate) fn with_frames<'s, T: AtSite>(&'s self, result: &'s T) -> WithFrames<'s, T> {
        WithFrames::new(result, &self.shown)
    }

    /// Like [`Sites::with_frames`], for at most `n` results.
    pub(crate) fn first_with_frames<'s, T: AtSite>(
        &'s self,
        results: &'s [T],
        n: usize,
    ) -> Vec<WithFrames<'s, T>> {
        results.iter().take(n).map(|result| self.with_frames(result)).collect()
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
