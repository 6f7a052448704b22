//! What the histories of a snapshot's devices share: judgements about frames, and the records of each device.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use crate::{
    analysis::{
        ShownFrames,
        frames::{JudgedFrame, judge},
    },
    history::{ByDevice, FrameIds},
    model::{FrameIndex, Snapshot, Text},
    words::{SeededMap, SeededSet},
};

/// By the name of a file, the last of its lines that is where it was in another snapshot.
pub(crate) type StayedLines = SeededMap<Box<str>, u64>;

/// What the histories of one snapshot share.
#[derive(Debug)]
pub(crate) struct SharedRecords<'a> {
    pub(crate) records: ByDevice<'a>,
    judged: OnceLock<Arc<[JudgedFrame]>>,
    /// By frame, the first frame with the same name, file and line.
    frames: OnceLock<Vec<FrameIndex>>,
    files: OnceLock<SeededSet<Text>>,
    names_owners: OnceLock<bool>,
    /// Unique among these values in the process.
    number: u64,
    /// The number of the snapshot that it was last compared with, and what stayed where it was.
    stayed: Mutex<Option<(u64, Arc<StayedLines>)>>,
}

impl<'a> SharedRecords<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> SharedRecords<'a> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        SharedRecords {
            records: ByDevice::new(snapshot),
            judged: OnceLock::new(),
            frames: OnceLock::new(),
            files: OnceLock::new(),
            names_owners: OnceLock::new(),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            stayed: Mutex::new(None),
        }
    }

    /// Returns the paths of the files of frames.
    pub(crate) fn files(&self) -> &SeededSet<Text> {
        let frames = || self.records.snapshot().stacks.all_frames();
        self.files.get_or_init(|| frames().map(|frame| frame.filename.clone()).collect())
    }

    /// Returns whether stacks name owners; `look` determines it.
    pub(crate) fn names_owners(&self, look: impl FnOnce(&Snapshot) -> bool) -> bool {
        *self.names_owners.get_or_init(|| look(self.records.snapshot()))
    }

    /// Returns which lines are where they were in another snapshot; `find` finds it out, once for all devices.
    pub(crate) fn stayed(
        &self,
        other: &SharedRecords<'_>,
        find: impl FnOnce() -> StayedLines,
    ) -> Arc<StayedLines> {
        let mut known = self.stayed.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((number, stayed)) if *number == other.number => stayed.clone(),
            _ => known.insert((other.number, Arc::new(find()))).1.clone(),
        }
    }

    pub(crate) fn shown(&self) -> ShownFrames<'a> {
        let snapshot = self.records.snapshot();
        ShownFrames::judged(snapshot, self.judged.get_or_init(|| judge(snapshot)).clone())
    }

    /// Returns for each frame the first with the same name, file and line.
    pub(crate) fn same_frames(&self) -> &[FrameIndex] {
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_stayed_is_found_once_for_all_devices() {
        let snapshot = Snapshot::default();
        let [before, after, other] = [(); 3].map(|()| SharedRecords::new(&snapshot));
        let n_found = Cell::new(0);
        let look = |after: &SharedRecords<'_>| {
            before.stayed(after, || {
                n_found.set(n_found.get() + 1);
                StayedLines::from_iter([("m.py".into(), n_found.get())])
            })["m.py"]
        };
        assert_eq!([&after, &after, &after].map(look), [1, 1, 1]);
        assert_eq!([&other, &other].map(look), [2, 2], "another snapshot");
        let names = [true, false].map(|is_known| after.names_owners(|_| is_known));
        assert_eq!(names, [true, true]);
    }
}
