//! The agreement between a recorder and a keeper in another process about one device: how far events were dropped, and
//! how far the keeper has folded them. The words are in the header of the tape.
#![forbid(unsafe_code)]

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::{
    layout::{DeviceWord, MAX_DEVICES},
    mapped::Mapped,
};
use memreel_snapshot::words::DeviceId;

/// The words of a device.
#[derive(Clone, Debug)]
pub(crate) struct Agreement {
    file: Arc<Mapped>,
    place: usize,
}

impl Agreement {
    /// Offers a device's events to a keeper; `None` if the header has no room for another device. Only one thread at a
    /// time may call it.
    pub(super) fn offer(file: &Arc<Mapped>, device: DeviceId) -> Option<Agreement> {
        let all = (0..MAX_DEVICES).map(|place| Agreement { file: file.clone(), place });
        let free = all.into_iter().find(|agreement| agreement.begun() == 0)?;
        // Relaxed, as in `set_folded`: the release of the next word publishes it.
        free.word(DeviceWord::Device).store(device.0.cast_unsigned(), Ordering::Relaxed);
        free.word(DeviceWord::Begun).store(1, Ordering::Release);
        Some(free)
    }

    /// Returns the agreements of all devices so far.
    pub(super) fn all(file: &Arc<Mapped>) -> Vec<Agreement> {
        let all = (0..MAX_DEVICES).map(|place| Agreement { file: file.clone(), place });
        all.take_while(|agreement| agreement.begun() > 0).collect()
    }

    pub(crate) fn device(&self) -> DeviceId {
        // Relaxed: `all` found with acquire that the device has begun.
        DeviceId(self.word(DeviceWord::Device).load(Ordering::Relaxed).cast_signed())
    }

    /// Returns a number that changes when the recorder has written its own list of live blocks.
    pub(crate) fn begun(&self) -> u64 {
        self.word(DeviceWord::Begun).load(Ordering::Acquire)
    }

    /// Announces that the recorder has written its own list of live blocks: the keeper's list no longer counts.
    pub(crate) fn begin_again(&self) {
        self.word(DeviceWord::Begun).fetch_add(1, Ordering::Release);
    }

    /// Returns the order word up to which the keeper is to fold.
    pub(crate) fn due(&self) -> u64 {
        self.word(DeviceWord::Due).load(Ordering::Acquire)
    }

    pub(crate) fn set_due(&self, until: u64) {
        self.word(DeviceWord::Due).store(until, Ordering::Release);
    }

    /// Returns the order word that a list in the file includes: chunks up to there may be dropped.
    pub(crate) fn folded(&self) -> u64 {
        self.word(DeviceWord::Folded).load(Ordering::Acquire)
    }

    /// Sets the order word that a list includes, and the number of its slots.
    pub(crate) fn set_folded(&self, until: u64, n_slots: usize) {
        self.word(DeviceWord::ListSlots).store(n_slots as u64, Ordering::Relaxed);
        self.word(DeviceWord::Folded).store(until, Ordering::Release);
    }

    /// Returns the number of slots of the keeper's last list. Relaxed: it only decides when the next list is due.
    pub(crate) fn n_list_slots(&self) -> usize {
        self.word(DeviceWord::ListSlots).load(Ordering::Relaxed) as usize
    }

    fn word(&self, word: DeviceWord) -> &AtomicU64 {
        self.file.device_word(self.place, word)
    }
}
