//! Matches sites across snapshots: stacks by the texts of their frames, because their numbers differ.

use super::site::Site;
use crate::{
    analysis::{ShownFrames, frames::is_generated},
    history::{FrameIds, TextIds},
    model::{Frame, Text},
};

/// A site that compares across snapshots.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum SiteKey {
    /// The numbers of the identifying frames.
    Calls(Box<[u64]>),
    Size(u64),
    Owner(Text),
}

/// Numbers the frames of several snapshots.
#[derive(Debug, Default)]
pub(crate) struct SiteKeys<'a> {
    frames: FrameIds<'a>,
    /// The names of functions in generated files.
    generated: TextIds<'a>,
}

/// The offset added to the number of a function in a generated file.
const GENERATED: u64 = 1 << 32;

impl<'a> SiteKeys<'a> {
    /// Returns the key of a site; `shown` belongs to its snapshot.
    pub(crate) fn of(&mut self, site: &Site, shown: &ShownFrames<'a>) -> SiteKey {
        match site {
            Site::Stack(stack) => {
                SiteKey::Calls(shown.identifying_frames(*stack).map(|frame| self.frame(frame)).collect())
            }
            Site::Size(bytes) => SiteKey::Size(*bytes),
            Site::Owner(owner) => SiteKey::Owner(owner.clone()),
            _ => SiteKey::Size(0),
        }
    }

    /// Returns the number of a frame: frames with the same name, file and line have the same number. Files that
    /// torch.compile generates are named by a hash of their content, which differs from run to run: for these only the
    /// function counts.
    fn frame(&mut self, frame: &'a Frame) -> u64 {
        if is_generated(&frame.filename) {
            GENERATED | u64::from(self.generated.id(&frame.name))
        } else {
            u64::from(self.frames.id(frame))
        }
    }
}
