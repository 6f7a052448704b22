//! A snapshot becomes a smaller one that says the same of what is kept.

use super::{
    frames, small,
    window::{self, Window},
};
use crate::{error::Result, snapshot::Snapshot};

/// What to leave out of a snapshot. The default leaves out nothing.
///
/// ```
/// use memreel::rewrite::{Slim, Window};
///
/// # let reel = memreel::Reel::builder().history(memreel::recorder::History::all()).build()?;
/// # let _block = reel.alloc(1000)?;
/// let mut slim = Slim::default();
/// slim.window = Some(Window::Events { device: None, range: 0..1 });
/// let before = slim.apply(reel.snapshot())?;
/// assert_eq!(before.device_traces[0].len(), 1, "the segment, but not the block in it");
/// assert!(before.segments[0].blocks.iter().all(|block| !block.state.unwrap().is_active()));
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Slim {
    /// The piece of the history to keep; its end becomes the file's end.
    pub window: Option<Window>,
    /// Blocks for which less was asked go, with their events; in bytes.
    pub min_bytes: u64,
    /// How many frames of a stack to keep, from the innermost on.
    pub depth: Option<usize>,
    /// Frames whose file's path contains one of these go.
    pub drop_paths: Vec<String>,
    /// Beginnings of paths that go; the longest that fits.
    pub strip_prefixes: Vec<String>,
    /// Functions, files and scopes become numbers, the same one for the same
    /// name; unknown keys with texts go. Lines, sizes, times and settings stay.
    pub anonymise: bool,
}

impl Slim {
    /// Leaves it out.
    ///
    /// # Errors
    /// [`is_misuse`](crate::Error::is_misuse) if the window names a scope or a
    /// device that is not there.
    pub fn apply(&self, mut snapshot: Snapshot) -> Result<Snapshot> {
        if let Some(window) = &self.window {
            window::cut(&mut snapshot, window)?;
        }
        if self.min_bytes > 0 {
            small::drop_small(&mut snapshot, self.min_bytes);
        }
        let is_same = self.depth.is_none() && self.drop_paths.is_empty() && self.strip_prefixes.is_empty();
        if !is_same || self.anonymise {
            frames::rewrite(&mut snapshot, self);
        }
        Ok(snapshot)
    }
}
