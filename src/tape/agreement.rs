//! What a recorder and a keeper in another process agree on for one device: how far events were dropped, and how far the
//! keeper has folded them. The words are in the header of the tape.
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
    /// Offers the events of a device to a keeper; `None` if the header has no room for another device. One thread calls it
    /// at a time.
    pub(super) fn offer(file: &Arc<Mapped>, device: DeviceId) -> Option<Agreement> {
        let all = (0..MAX_DEVICES).map(|place| Agreement { file: file.clone(), place });
        let free = all.into_iter().find(|agreement| agreement.begun() == 0)?;
        // Relaxed, as in `set_folded`: the release of the next word publishes it.
        free.word(DeviceWord::Device).store(device.0.cast_unsigned(), Ordering::Relaxed);
        free.word(DeviceWord::Begun).store(1, Ordering::Release);
        Some(free)
    }

    /// Returns those of all devices so far.
    pub(super) fn all(file: &Arc<Mapped>) -> Vec<Agreement> {
        let all = (0..MAX_DEVICES).map(|place| Agreement { file: file.clone(), place });
        all.take_while(|agreement| agreement.begun() > 0).collect()
    }

    pub(crate) fn device(&self) -> DeviceId {
        // Relaxed: `all` found with acquire that the device has begun.
        DeviceId(self.word(DeviceWord::Device).load(Ordering::Relaxed).cast_signed())
    }

    /// Returns a number that changes when the recorder has written a list of live blocks of its own.
    pub(crate) fn begun(&self) -> u64 {
        self.word(DeviceWord::Begun).load(Ordering::Acquire)
    }

    /// Says that the recorder has written a list of live blocks of its own: what the keeper has does not count any more.
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

    /// Returns the order word up to which a list in the file has the events: their chunks may go.
    pub(crate) fn folded(&self) -> u64 {
        self.word(DeviceWord::Folded).load(Ordering::Acquire)
    }

    /// Says up to which order word a list has the events, and how many slots that has.
    pub(crate) fn set_folded(&self, until: u64, n_slots: usize) {
        self.word(DeviceWord::ListSlots).store(n_slots as u64, Ordering::Relaxed);
        self.word(DeviceWord::Folded).store(until, Ordering::Release);
    }

    /// Returns the slots of the keeper's last list. Relaxed: it only decides when the next list is due.
    pub(crate) fn n_list_slots(&self) -> usize {
        self.word(DeviceWord::ListSlots).load(Ordering::Relaxed) as usize
    }

    fn word(&self, word: DeviceWord) -> &AtomicU64 {
        self.file.device_word(self.place, word)
    }
}
