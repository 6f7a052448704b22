//! Makes a snapshot smaller, leaving what it keeps unchanged.

use std::{fmt, ops::Deref};

use super::{
    frames::{FrameOptions, Reframed},
    min_size::MinSize,
    named::Named,
    window::{Window, Windowed},
};
use crate::{
    model::{Snapshot, SnapshotSource, collected},
    words::Result,
};

/// What to remove from a snapshot; by default nothing.
///
/// [`Slim::apply`] makes another snapshot; [`Slim::over`] streams a file of any size.
///
/// ```
/// use memreel::rewrite::{Slim, Window};
///
/// # let reel = memreel::Reel::builder().history(memreel::recorder::Recording::all()).build()?;
/// # let _block = reel.alloc(1000)?;
/// let slim = Slim::new().window(Window::Events { device: None, range: 0..1 }).depth(12);
/// let before = slim.apply(reel.snapshot())?;
/// assert_eq!(before.device_traces[0].len(), 1, "the segment, but not the block in it");
/// assert!(before.segments[0].blocks.iter().all(|block| !block.state.unwrap().is_active()));
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[must_use = "it does nothing until it is applied"]
pub struct Slim {
    window: Option<Window>,
    min_bytes: u64,
    frames: FrameOptions,
}

impl Slim {
    /// Creates options that remove nothing.
    pub fn new() -> Slim {
        Slim::default()
    }

    /// Sets the part of the history to keep; its end becomes the end of the file. Default: all of it.
    pub fn window(mut self, window: impl Into<Option<Window>>) -> Self {
        self.window = window.into();
        self
    }

    /// Sets the minimum requested bytes of a block that is kept; smaller blocks are left out with their events.
    /// Default: 0.
    pub fn min_bytes(mut self, min_bytes: u64) -> Self {
        self.min_bytes = min_bytes;
        self
    }

    /// Sets the most frames to keep of each stack, from the innermost on; frames that viewers hide do not
    /// count. Default: all frames.
    pub fn depth(mut self, depth: impl Into<Option<usize>>) -> Self {
        self.frames.depth = depth.into();
        self
    }

    /// Leaves out frames whose file's path contains `part`; may be called several times.
    pub fn drop_path(mut self, part: impl Into<String>) -> Self {
        self.frames.drop_paths.push(part.into());
        self
    }

    /// Removes `prefix` from the start of paths; may be called several times. If several prefixes fit, the longest is
    /// removed.
    pub fn strip_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.frames.strip_prefixes.push(prefix.into());
        self
    }

    /// Sets whether to replace the program's names of functions, files and scopes by numbers, the same name by the
    /// same number, and to leave out unknown keys with texts. Lines, sizes, times, settings and the names of public
    /// frameworks stay, so that the answers about the snapshot stay the same.
    /// Default: false.
    pub fn anonymise(mut self, anonymise: bool) -> Self {
        self.frames.anonymise = anonymise;
        self
    }

    /// Returns the reduced snapshot.
    ///
    /// # Errors
    /// [`is_misuse`](crate::Error::is_misuse) if the window names a scope or a device that is not in the
    /// snapshot.
    pub fn apply(&self, snapshot: Snapshot) -> Result<Snapshot> {
        if *self == Slim::default() {
            return Ok(snapshot);
        }
        Ok(collected(&self.over(&snapshot)?))
    }

    /// Returns a source whose events are read from `source` and changed in every pass.
    ///
    /// It takes memory for segments and stacks, and for each address and segment event after the
    /// beginning of a window; not for all events. This method reads all events up to three times: once
    /// for other stacks, once for a least size, up to four times for a window.
    ///
    /// ```
    /// use memreel::{pickle, rewrite::Slim, snapshot::{SnapshotSource, Snapshot}};
    /// # let bytes = pickle::to_vec(&Snapshot::default());
    /// let lazy = pickle::lazy(&bytes)?;
    /// let small = Slim::new().depth(8).over(&lazy)?;
    /// pickle::write(&small, std::io::sink())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Slim::apply`].
    pub fn over<'a>(&self, source: &'a dyn SnapshotSource) -> Result<Slimmed<'a>> {
        let mut slimmed: Box<dyn SnapshotSource + 'a> = Box::new(source);
        if let Some(window) = &self.window {
            slimmed = Box::new(Named::new(Windowed::new(slimmed, window)?));
        }
        if self.min_bytes > 0 {
            slimmed = Box::new(MinSize::new(slimmed, self.min_bytes));
        }
        if self.frames != FrameOptions::default() {
            slimmed = Box::new(Reframed::new(slimmed, &self.frames));
        }
        Ok(Slimmed(slimmed))
    }
}

/// A reduced source, from [`Slim::over`].
pub struct Slimmed<'a>(Box<dyn SnapshotSource + 'a>);

impl fmt::Debug for Slimmed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slimmed").field(self.0.head()).finish()
    }
}

impl<'a> Deref for Slimmed<'a> {
    type Target = dyn SnapshotSource + 'a;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}
