//! What to leave out of a snapshot to make it smaller.

use super::window::Window;

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
    /// How many frames of a stack to keep, from the innermost on; those that viewers hide do not count.
    pub depth: Option<usize>,
    /// Frames whose file's path contains one of these go.
    pub drop_paths: Vec<String>,
    /// Beginnings of paths that go; the longest that fits.
    pub strip_prefixes: Vec<String>,
    /// Functions, files and scopes become numbers, the same one for the same
    /// name; unknown keys with texts go. Lines, sizes, times and settings stay.
    pub anonymise: bool,
}
