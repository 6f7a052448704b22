//! A device of addresses without memory: deterministic runs of any size on any machine.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Device, Mark, places::Places};
#[cfg(not(loom))]
use crate::process::fork;
use memreel_snapshot::words::{Address, Error, Result, StreamId};

/// Addresses are multiples of this, as a driver's are.
const ALIGNMENT_BYTES: u64 = 2 << 20;

/// The first address of a segment when there is no script.
const BASE: u64 = 0x7f00_0000_0000;

/// The first address of a reserved range, far from the segments.
const RANGE_BASE: u64 = 0x6000_0000_0000;

/// The upper ends of falling segments and of falling ranges: far apart, and
/// at most 2^53, so that JavaScript represents the addresses exactly.
const TOP: u64 = 1 << 51;
const RANGE_TOP: u64 = 1 << 52;

/// A test device that hands out addresses without memory and fails on demand.
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
    /// Addresses are handed out from the highest down.
    falls: bool,
    n_refusals: u32,
    /// How many of the next operations on marks fail.
    n_failures: u32,
    free_bytes: Option<u64>,
    busy: BTreeSet<StreamId>,
    numbers: BTreeMap<StreamId, u64>,
    /// The marks that are not passed, with their streams.
    pending: BTreeMap<u64, StreamId>,
    /// The same by stream.
    pending_on: BTreeSet<(StreamId, u64)>,
    n_marks: u64,
}

impl Simulated {
    /// Creates a device of `total_bytes` bytes.
    #[must_use]
    pub fn new(total_bytes: u64) -> Simulated {
        let state = Arc::new(Mutex::new(State::new()));
        #[cfg(not(loom))]
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
    /// Best fit takes the lowest of equal blocks, so the order of addresses
    /// decides ties. A run with each order shows how much depends on it.
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

    /// Consumes one of the refusals that [`Simulated::refuse_next`] ordered, if any is left.
    fn refuses(&mut self) -> bool {
        let refuses = self.n_refusals > 0;
        self.n_refusals -= u32::from(refuses);
        refuses
    }

    /// Consumes one of the failures that [`Simulated::fail_next`] ordered, if any is left.
    fn fails(&mut self) -> Result<()> {
        let fails = self.n_failures > 0;
        self.n_failures -= u32::from(fails);
        if fails { Err(Error::device("simulated", "failure requested by `fail_next`")) } else { Ok(()) }
    }

    fn used_bytes(&self) -> u64 {
        self.live.n_bytes() + self.mapped_bytes
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
        if state.refuses() || bytes > self.total_bytes.saturating_sub(state.used_bytes()) {
            return Ok(None);
        }
        let State { script, live, falls, .. } = &mut *state;
        take_place(script, live, *falls, bytes)
    }

    unsafe fn segment_free(&self, address: Address, bytes: u64) {
        let freed = self.state().live.remove(address.0);
        debug_assert_eq!(freed, Some(bytes), "segment {address} was not handed out with {bytes} bytes");
    }

    fn range_reserve(&self, bytes: u64, _page_bytes: u64) -> Result<Option<Address>> {
        let mut state = self.state();
        let State { range_script, ranges, falls, .. } = &mut *state;
        take_place(range_script, ranges, *falls, bytes)
    }

    unsafe fn range_release(&self, address: Address, bytes: u64) {
        let released = self.state().ranges.remove(address.0);
        debug_assert_eq!(released, Some(bytes), "range {address} was not handed out with {bytes} bytes");
    }

    unsafe fn range_map(&self, _address: Address, bytes: u64) -> Result<bool> {
        let mut state = self.state();
        if state.refuses() || bytes > self.total_bytes.saturating_sub(state.used_bytes()) {
            return Ok(false);
        }
        state.mapped_bytes += bytes;
        Ok(true)
    }

    unsafe fn range_unmap(&self, _address: Address, bytes: u64) {
        self.state().mapped_bytes -= bytes;
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
