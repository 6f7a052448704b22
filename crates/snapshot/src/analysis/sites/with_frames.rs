//! Results with the frames of the stacks that they refer to, in serialisable form.

use serde::Serialize;

use super::site::{BlockNames, Site};
use crate::{
    analysis::{MarkedFrame, ShownFrames},
    history::ScopePath,
    words::{PoolId, StreamId},
};

/// A site that serialises with all frames of its stack, innermost first.
///
/// A stack becomes `{"stack": [{"name", "filename", "line", "is_shown"}, …]}`, where `is_shown` marks
/// the frames that identify the code that allocated ([`ShownFrames::identifying`]); a size becomes
/// `{"stack": null, "size_bytes"}`, and the other sites `{"function", "filename"}`,
/// `{"filename"}`, `{"filename", "line"}`, `{"stream"}`, `{"pool_id"}`, `{"scope"}`, `{"name"}` or `{"owner"}`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(transparent)]
pub struct SiteFrames<'a>(Form<'a>);

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
enum Form<'a> {
    Stack { stack: Vec<MarkedFrame<'a>> },
    Size { stack: Option<()>, size_bytes: u64 },
    Function { function: &'a str, filename: &'a str },
    File { filename: &'a str },
    Line { filename: &'a str, line: u64 },
    Stream { stream: StreamId },
    Pool { pool_id: Option<PoolId> },
    Scope { scope: Option<&'a ScopePath> },
    Name { name: Option<&'a BlockNames> },
    Owner { owner: &'a str },
    NoFunction { function: Option<()>, filename: Option<()> },
    NoFile { filename: Option<()> },
    NoFrames { stack: Option<()> },
}

impl<'a> SiteFrames<'a> {
    /// Looks up the frames of a site; `shown` belongs to the site's snapshot.
    #[must_use]
    pub fn new(site: &'a Site, shown: &ShownFrames<'a>) -> SiteFrames<'a> {
        SiteFrames(match site {
            Site::Stack(stack) => Form::Stack { stack: shown.marked(*stack).collect() },
            Site::Size(size_bytes) => Form::Size { stack: None, size_bytes: *size_bytes },
            Site::Function { name, filename } => Form::Function { function: name, filename },
            Site::File(filename) => Form::File { filename },
            Site::Line { filename, line } => Form::Line { filename, line: *line },
            Site::Stream(stream) => Form::Stream { stream: *stream },
            Site::Pool(pool) => Form::Pool { pool_id: *pool },
            Site::Scope(scope) => Form::Scope { scope: Some(scope) },
            Site::Name(name) => Form::Name { name: Some(name) },
            Site::Owner(owner) => Form::Owner { owner },
            Site::NoName => Form::Name { name: None },
            Site::NoStack => Form::NoFunction { function: None, filename: None },
            Site::NoFile => Form::NoFile { filename: None },
            Site::Before => Form::Scope { scope: None },
        })
    }
}

/// A result about one site that serialises with its figures first and then its [`SiteFrames`].
///
/// On their own such results serialise their figures only, because a stack's number means nothing
/// without its snapshot.
///
/// ```
/// use memreel::{DeviceId, Reel, analysis::{By, DeviceHistory, ShownFrames, WithFrames}, recorder::Recording};
///
/// let reel = Reel::builder().history(Recording::all()).build()?;
/// let _kept = reel.alloc(1000)?;
/// let snapshot = reel.snapshot();
/// let history = DeviceHistory::new(&snapshot, DeviceId(0));
/// let shown = ShownFrames::new(&snapshot);
/// for group in history.top(history.end(), By::Stack) {
///     println!("{}", serde_json::to_string(&WithFrames::new(&group, &shown)).expect("is JSON"));
/// }
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct WithFrames<'a, T> {
    #[serde(flatten)]
    result: &'a T,
    #[serde(flatten)]
    site: Option<SiteFrames<'a>>,
}

impl<'a, T: AtSite> WithFrames<'a, T> {
    /// Looks up the frames of a result's site; `shown` belongs to the site's snapshot.
    #[must_use]
    pub fn new(result: &'a T, shown: &ShownFrames<'a>) -> WithFrames<'a, T> {
        let frames = |site: &'a Site| match site {
            Site::Size(_) if result.has_size_bytes() => SiteFrames(Form::NoFrames { stack: None }),
            site => SiteFrames::new(site, shown),
        };
        WithFrames { result, site: result.site().map(frames) }
    }
}

/// A result about one site.
pub trait AtSite {
    /// Returns the site; `None` only for a change without groups.
    fn site(&self) -> Option<&Site>;

    /// Returns whether the figures of the result contain `size_bytes`, which a site without a stack then omits.
    fn has_size_bytes(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{analysis::ChurnSite, model::Snapshot};

    #[test]
    fn no_key_is_written_twice() {
        let site = ChurnSite {
            site: Site::Size(512),
            n_cycles: 6,
            size_bytes: 512,
            bytes: 3072,
            mean_life_entries: 1,
            n_stacks: 0,
        };
        let snapshot = Snapshot::default();
        let text = serde_json::to_string(&WithFrames::new(&site, &ShownFrames::new(&snapshot))).unwrap();
        assert_eq!(text.matches("size_bytes").count(), 1, "{text}");
        assert!(text.ends_with(r#""stack":null}"#), "{text}");
    }
}
