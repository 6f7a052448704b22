//! What the histories of a snapshot's devices share: judgements about frames, and the records of each device.

use std::sync::{Arc, OnceLock};

use super::frames::{Judged, ShownFrames, judge};
use crate::{
    history::{ByDevice, FrameIds},
    model::{FrameIndex, Snapshot},
};

/// What the histories of one snapshot share.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub(super) records: ByDevice<'a>,
    judged: OnceLock<Arc<[Judged]>>,
    /// By frame, the first frame with the same name, file and line.
    frames: OnceLock<Vec<FrameIndex>>,
}

impl<'a> Shared<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Shared<'a> {
        Shared { records: ByDevice::new(snapshot), judged: OnceLock::new(), frames: OnceLock::new() }
    }

    pub(super) fn shown(&self) -> ShownFrames<'a> {
        let snapshot = self.records.snapshot();
        ShownFrames::judged(snapshot, self.judged.get_or_init(|| judge(snapshot)).clone())
    }

    /// Returns for each frame the first with the same name, file and line.
    pub(super) fn same_frames(&self) -> &[FrameIndex] {
        self.frames.get_or_init(|| {
            let (mut ids, mut first) = (FrameIds::default(), Vec::new());
            let frames = (0..).map(FrameIndex).zip(self.records.snapshot().stacks.all_frames());
            let same = frames.map(|(index, frame)| {
                let id = ids.id(frame) as usize;
                if id == first.len() {
                    first.push(index);
                }
                first[id]
            });
            same.collect()
        })
    }
}
