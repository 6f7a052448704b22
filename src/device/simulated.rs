//! A device with addresses but no memory, for deterministic runs of any size on any machine.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    Device, Mark,
    places::{ALIGNMENT_BYTES, Places},
    playback::{Deed, Playback, Played, RangeOwner},
};
use crate::process::fork;
use memreel_snapshot::words::{Address, Error, Result, StreamId};

/// The first address of a segment when there is no script.
const BASE: u64 = 0x7f00_0000_0000;

/// The first address of a reserved range, far from the segments.
const RANGE_BASE: u64 = 0x6000_0000_0000;

/// The upper ends of falling segments and falling ranges: far apart, and at most 2^53, so that JavaScript represents
/// the addresses exactly.
const TOP: u64 = 1 << 51;
const RANGE_TOP: u64 = 1 << 52;

/// A test device that hands out addresses without memory, and fails on demand.
///
/// By default a segment gets the lowest free range from `0x7f00_0000_0000`
/// upward; with a script, segments get the scripted addresses in order. A
/// stream is idle until [`Simulated::set_busy`]; marks on a busy stream are
/// passed at [`Simulated::set_idle`].
///
/// ```
/// use memreel::device::{Device, Simulated};
///
/// let device = Simulated::new(80 << 30);
/// assert_eq!(device.segment_alloc(2 << 20)?.map(|a| a.0), Some(0x7f00_0000_0000));
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Debug)]
pub struct Simulated {
    total_bytes: u64,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    live: Places,
    ranges: Places,
    mapped_bytes: u64,
    script: Option<VecDeque<u64>>,
    range_script: Option<VecDeque<u64>>,
    /// Whether addresses are handed out from the highest down.
    falls: bool,
    playback: Option<Playback>,
    n_refusals: u32,
    /// How many of the next operations on marks fail.
    n_failures: u32,
    free_bytes: Option<u64>,
    busy: BTreeSet<StreamId>,
    numbers: BTreeMap<StreamId, u64>,
    /// The marks that are not passed yet, with their streams.
    pending: BTreeMap<u64, StreamId>,
    /// The same marks by stream.
    pending_on: BTreeSet<(StreamId, u64)>,
    n_marks: u64,
}

impl Simulated {
    /// Creates a device of `total_bytes` bytes.
    #[must_use]
    pub fn new(total_bytes: u64) -> Simulated {
        let state = Arc::new(Mutex::new(State::new()));
        fork::register(fork::Level::Device, &state);
        Simulated { total_bytes, state }
    }

    /// Hands out these addresses as segments, in order.
    ///
    /// A request after the last address, or an address that overlaps a live
    /// segment, is a device error: the script does not match the program.
    #[must_use]
    pub fn scripted(self, addresses: impl IntoIterator<Item = impl Into<Address>>) -> Simulated {
        self.state().script = Some(addresses.into_iter().map(|address| address.into().0).collect());
        self
    }

    /// Hands out these addresses as ranges of expandable segments, in order.
    #[must_use]
    pub fn scripted_ranges(self, addresses: impl IntoIterator<Item = impl Into<Address>>) -> Simulated {
        self.state().range_script = Some(addresses.into_iter().map(|address| address.into().0).collect());
        self
    }

    /// Hands out the highest free addresses, below 2^51, instead of the lowest.
    ///
    /// Best fit takes the lowest of equal blocks, so the order of addresses breaks ties. A run with each order shows
    /// how much depends on it.
    ///
    /// ```
    /// use memreel::device::{Device, Simulated};
    ///
    /// let device = Simulated::new(80 << 30).falling();
    /// let first = device.segment_alloc(2 << 20)?;
    /// assert!(device.segment_alloc(2 << 20)? < first);
    /// # Ok::<(), memreel::Error>(())
    /// ```
    #[must_use]
    pub fn falling(self) -> Simulated {
        {
            let mut state = self.state();
            state.falls = true;
            state.live = Places::new(0..TOP, ALIGNMENT_BYTES);
            state.ranges = Places::new(0..RANGE_TOP, ALIGNMENT_BYTES);
        }
        self
    }

    /// Hands out addresses above `address`, or with [`Simulated::falling`] below it, if that leaves enough of them.
    pub(crate) fn beyond(self, addresses: std::ops::Range<Address>) -> Simulated {
        /// The addresses that remain for segments.
        const SPAN: u64 = 1 << 50;
        {
            let mut state = self.state();
            if state.falls {
                let end = if addresses.start.0 > SPAN >> 4 { addresses.start.0.min(TOP) } else { TOP };
                state.live = Places::new(0..end, ALIGNMENT_BYTES);
            } else {
                let start = addresses.end.0.max(BASE);
                let middle = start.saturating_add(SPAN);
                state.live = Places::new(start..middle, ALIGNMENT_BYTES);
                state.ranges = Places::new(middle..u64::MAX, ALIGNMENT_BYTES);
            }
        }
        self
    }

    /// Repeats the recorded actions of a device, as far as [`Simulated::play_on`] allows: hands out the same memory at
    /// the same addresses, and waits for memory to come back where the recorded device did. A request that the recorded
    /// device did not get may get any address.
    pub(crate) fn play(&self, deeds: Vec<Deed>) {
        self.state().playback = Some(Playback { deeds, ..Playback::default() });
    }

    /// Skips what was due until now, and repeats the next `n` actions for `owner`; then the device is full if
    /// `ends_full`.
    pub(crate) fn play_on(&self, n: usize, owner: RangeOwner, ends_full: bool) {
        if let Some(playback) = &mut self.state().playback {
            playback.n_done = playback.n_due;
            playback.n_due = (playback.n_due + n).min(playback.deeds.len());
            (playback.owner, playback.ends_full) = (owner, ends_full);
        }
    }

    /// Stops playback; see [`Simulated::play`].
    pub(crate) fn stop_playing(&self) {
        self.state().playback = None;
    }

    /// Sets the value that [`Device::stream_number`] returns for a stream.
    #[must_use]
    pub fn with_stream_number(self, stream: StreamId, number: u64) -> Simulated {
        self.state().numbers.insert(stream, number);
        self
    }

    /// Makes the next `n` requests for memory find the device full.
    pub fn refuse_next(&self, n: u32) {
        self.state().n_refusals = n;
    }

    /// Makes the next `n` operations on marks fail with a device error.
    pub fn fail_next(&self, n: u32) {
        self.state().n_failures = n;
    }

    /// Overrides what [`Device::free_bytes`] reports; `None` restores the true value.
    pub fn set_free_bytes(&self, free_bytes: Option<u64>) {
        self.state().free_bytes = free_bytes;
    }

    /// Makes a stream busy: marks made on it from now on are not passed.
    pub fn set_busy(&self, stream: StreamId) {
        self.state().busy.insert(stream);
    }

    /// Makes a stream idle: it passes all its marks.
    pub fn set_idle(&self, stream: StreamId) {
        let mut state = self.state();
        state.busy.remove(&stream);
        state.pass(stream, u64::MAX);
    }

    /// Makes every stream idle: all marks are passed.
    pub fn synchronize(&self) {
        let mut state = self.state();
        state.busy.clear();
        state.pending.clear();
        state.pending_on.clear();
    }

    /// Returns the number of segments and ranges that were not given back.
    #[must_use]
    pub fn n_segments(&self) -> usize {
        let state = self.state();
        state.live.len() + state.ranges.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new() -> State {
        State {
            live: Places::new(BASE..u64::MAX, ALIGNMENT_BYTES),
            ranges: Places::new(RANGE_BASE..u64::MAX, ALIGNMENT_BYTES),
            mapped_bytes: 0,
            script: None,
            range_script: None,
            falls: false,
            playback: None,
            n_refusals: 0,
            n_failures: 0,
            free_bytes: None,
            busy: BTreeSet::new(),
            numbers: BTreeMap::new(),
            pending: BTreeMap::new(),
            pending_on: BTreeSet::new(),
            n_marks: 0,
        }
    }

    /// Passes a stream's marks up to this one.
    fn pass(&mut self, stream: StreamId, until: u64) {
        while let Some(pair) = self.pending_on.range((stream, 0)..=(stream, until)).next().copied() {
            self.pending_on.remove(&pair);
            self.pending.remove(&pair.1);
        }
    }

    /// Consumes one of the refusals that [`Simulated::refuse_next`] requested, if any is left.
    fn refuses(&mut self) -> bool {
        let refuses = self.n_refusals > 0;
        self.n_refusals -= u32::from(refuses);
        refuses
    }

    /// Consumes one of the failures that [`Simulated::fail_next`] requested, if any is left.
    fn fails(&mut self) -> Result<()> {
        let fails = self.n_failures > 0;
        self.n_failures -= u32::from(fails);
        if fails { Err(Error::device("simulated", "failure requested by `fail_next`")) } else { Ok(()) }
    }

    fn used_bytes(&self) -> u64 {
        self.live.n_bytes() + self.mapped_bytes
    }

    /// Returns the response of playback to a request; without playback, whether there is room.
    fn answer(&mut self, bytes: u64, total_bytes: u64) -> Played {
        if let Some(playback) = &mut self.playback {
            return playback.next(bytes);
        }
        let has_room = bytes <= total_bytes.saturating_sub(self.used_bytes());
        if self.refuses() || !has_room { Played::Full } else { Played::Anywhere }
    }
}

/// Takes the next address of the script, or a free one if there is no script; `None` when no address is free.
fn take_place(
    script: &mut Option<VecDeque<u64>>,
    places: &mut Places,
    falls: bool,
    bytes: u64,
) -> Result<Option<Address>> {
    let start = match script {
        None if falls => places.highest(bytes),
        None => places.lowest(bytes),
        Some(script) => {
            let start = script.pop_front();
            let start =
                start.ok_or_else(|| Error::device("simulated", "the script has no more addresses"))?;
            if places.overlaps(start, bytes) {
                let what = format!("the script returns {start:#x}, which is in use");
                return Err(Error::device("simulated", what));
            }
            Some(start)
        }
    };
    start.into_iter().for_each(|start| places.insert(start, bytes));
    Ok(start.map(Address))
}

// SAFETY: live ranges are disjoint: `Places` finds gaps between them, and
// a scripted address that overlaps one is refused. The memory is not host
// visible, so no pointers are made from the addresses.
unsafe impl Device for Simulated {
    fn name(&self) -> String {
        "simulated".into()
    }

    fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    fn free_bytes(&self) -> u64 {
        let state = self.state();
        state.free_bytes.unwrap_or_else(|| self.total_bytes.saturating_sub(state.used_bytes()))
    }

    fn is_host_visible(&self) -> bool {
        false
    }

    fn segment_alloc(&self, bytes: u64) -> Result<Option<Address>> {
        let mut state = self.state();
        let played = state.answer(bytes, self.total_bytes);
        let State { script, live, falls, .. } = &mut *state;
        match played {
            Played::Full => Ok(None),
            Played::At(Address(address)) if !live.overlaps(address, bytes) => {
                live.insert(address, bytes);
                Ok(Some(Address(address)))
            }
            Played::At(_) | Played::Anywhere => take_place(script, live, *falls, bytes),
        }
    }

    unsafe fn segment_free(&self, address: Address, bytes: u64) {
        let mut state = self.state();
        state.playback.iter_mut().for_each(Playback::took);
        let freed = state.live.remove(address.0);
        debug_assert_eq!(freed, Some(bytes), "segment {address} was not handed out with {bytes} bytes");
    }

    fn range_reserve(&self, bytes: u64, page_bytes: u64) -> Result<Option<Address>> {
        let mut state = self.state();
        let State { range_script, ranges, falls, playback, .. } = &mut *state;
        let played = playback.as_mut().and_then(|playback| playback.reserve(ranges, page_bytes));
        if let Some(Address(address)) = played.filter(|address| !ranges.overlaps(address.0, bytes)) {
            ranges.insert(address, bytes);
            return Ok(Some(Address(address)));
        }
        take_place(range_script, ranges, *falls, bytes)
    }

    unsafe fn range_release(&self, address: Address, bytes: u64) {
        let released = self.state().ranges.remove(address.0);
        debug_assert_eq!(released, Some(bytes), "range {address} was not handed out with {bytes} bytes");
    }

    unsafe fn range_map(&self, _address: Address, bytes: u64) -> Result<bool> {
        let mut state = self.state();
        if matches!(state.answer(bytes, self.total_bytes), Played::Full) {
            return Ok(false);
        }
        state.mapped_bytes += bytes;
        Ok(true)
    }

    unsafe fn range_unmap(&self, _address: Address, bytes: u64) {
        let mut state = self.state();
        state.playback.iter_mut().for_each(Playback::took);
        state.mapped_bytes -= bytes;
    }

    fn mark(&self, stream: StreamId) -> Result<Mark> {
        let mut state = self.state();
        state.fails()?;
        state.n_marks += 1;
        let mark = state.n_marks;
        if state.busy.contains(&stream) {
            state.pending.insert(mark, stream);
            state.pending_on.insert((stream, mark));
        }
        Ok(Mark(mark))
    }

    fn is_passed(&self, mark: Mark) -> Result<bool> {
        let mut state = self.state();
        state.fails()?;
        Ok(!state.pending.contains_key(&mark.0))
    }

    fn wait(&self, mark: Mark) -> Result<()> {
        let mut state = self.state();
        state.fails()?;
        // No work will ever finish on the stream, so waiting makes it idle up to the mark.
        if let Some(stream) = state.pending.get(&mark.0).copied() {
            state.pass(stream, mark.0);
        }
        Ok(())
    }

    unsafe fn forget(&self, mark: Mark) {
        let mut state = self.state();
        if let Some(stream) = state.pending.remove(&mark.0) {
            state.pending_on.remove(&(stream, mark.0));
        }
    }

    fn stream_number(&self, stream: StreamId) -> u64 {
        self.state().numbers.get(&stream).copied().unwrap_or(stream.handle())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const OWNER: RangeOwner = (StreamId::DEFAULT, 0);

    fn gave(address: u64, size_bytes: u64) -> Deed {
        Deed::Gave { address: Address(address), size_bytes }
    }

    #[test]
    fn a_playing_device_gives_and_refuses_what_was_recorded() {
        let device = Simulated::new(100 * MIB).falling();
        device.play(vec![
            gave(40 * MIB, 2 * MIB),
            Deed::Took,
            gave(40 * MIB, 20 * MIB),
            gave(60 * MIB, 2 * MIB),
            gave(50 * MIB, 20 * MIB),
        ]);
        device.play_on(3, OWNER, false);
        assert_eq!(device.segment_alloc(2 * MIB).unwrap(), Some(Address(40 * MIB)));
        assert_eq!(device.segment_alloc(20 * MIB).unwrap(), None, "something came back first");
        // SAFETY: the device gave the segment, which is returned once.
        unsafe { device.segment_free(Address(40 * MIB), 2 * MIB) };
        assert_eq!(device.segment_alloc(20 * MIB).unwrap(), Some(Address(40 * MIB)));
        let elsewhere = device.segment_alloc(300 * MIB).unwrap().unwrap();
        assert!(elsewhere.0 > 1 << 40, "what was not recorded is given anyway, whatever its size");
        device.play_on(1, OWNER, true);
        assert!(device.segment_alloc(20 * MIB).unwrap().unwrap().0 > 1 << 40, "of another size");
        assert_eq!(device.segment_alloc(2 * MIB).unwrap(), None, "full at the end");
        device.play_on(1, OWNER, false);
        assert_ne!(device.segment_alloc(20 * MIB).unwrap(), Some(Address(50 * MIB)), "it is taken");
        device.stop_playing();
        assert_eq!(device.segment_alloc(2 * MIB).unwrap(), None, "more than the device has");
    }

    #[test]
    fn a_playing_device_reserves_where_pages_are_mapped_next() {
        let device = Simulated::new(1 << 30);
        let mapped = |address, mib, owner| {
            let (address, size_bytes) = (Address(address), mib * MIB);
            Deed::Mapped { address, size_bytes, owner }
        };
        device.play(vec![
            Deed::Reserved(Address(1 << 33)),
            mapped(1 << 33, 20, OWNER),
            gave(1 << 32, 2 * MIB),
            mapped(1 << 36, 2, (StreamId(1), 0)),
            mapped(1 << 37, 20, OWNER),
            mapped(1 << 35, 2, OWNER),
        ]);
        device.play_on(1, OWNER, false);
        assert_eq!(device.range_reserve(2 << 30, 2 * MIB).unwrap(), Some(Address(1 << 33)));
        assert_eq!(device.range_reserve(2 << 30, 2 * MIB).unwrap(), Some(Address(1 << 35)), "not due");
        let other = device.range_reserve(2 << 30, 2 * MIB).unwrap().unwrap();
        assert!(other.0 >= RANGE_BASE, "no other is recorded");
    }
}
