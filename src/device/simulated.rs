//! A device of addresses without memory: deterministic runs of any size on any machine.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Device, Mark};
#[cfg(not(loom))]
use crate::fork;
use crate::{
    error::{Error, Result},
    event::{Address, StreamId},
};

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

#[derive(Debug, Default)]
struct State {
    live: BTreeMap<u64, u64>,
    ranges: BTreeMap<u64, u64>,
    mapped_bytes: u64,
    script: Option<VecDeque<u64>>,
    range_script: Option<VecDeque<u64>>,
    /// Addresses are handed out from the highest down.
    falls: bool,
    n_refusals: u32,
    /// How many of the next operations on marks fail.
    n_failures: u32,
    free_bytes: Option<u64>,
    busy: Vec<StreamId>,
    numbers: BTreeMap<StreamId, u64>,
    pending: BTreeMap<u64, StreamId>,
    n_marks: u64,
}

impl Simulated {
    /// Creates a device of `total_bytes` bytes.
    #[must_use]
    pub fn new(total_bytes: u64) -> Simulated {
        let state = Arc::default();
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
        self.state().falls = true;
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
        self.state().busy.push(stream);
    }

    /// Makes a stream idle: it passes all its marks.
    pub fn set_idle(&self, stream: StreamId) {
        let mut state = self.state();
        state.busy.retain(|busy| *busy != stream);
        state.pending.retain(|_, on| *on != stream);
    }

    /// Makes every stream idle: all marks are passed.
    pub fn synchronize(&self) {
        let mut state = self.state();
        state.busy.clear();
        state.pending.clear();
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
        self.live.values().sum::<u64>() + self.mapped_bytes
    }
}

fn overlaps(taken: &BTreeMap<u64, u64>, start: u64, bytes: u64) -> bool {
    let before = taken.range(..start.saturating_add(bytes)).next_back();
    before.is_some_and(|(at, len)| at + len > start)
}

/// Returns the lowest free start from `base` on; `None` at the end of 64 bits.
fn lowest_free(taken: &BTreeMap<u64, u64>, base: u64, bytes: u64) -> Option<u64> {
    let mut start = base;
    for (at, len) in taken.range(base..) {
        if at - start >= bytes {
            break;
        }
        start = (at + len).checked_next_multiple_of(ALIGNMENT_BYTES)?;
    }
    start.checked_add(bytes).map(|_| start)
}

/// Returns the highest free start below `top`; `None` when zero is reached.
fn highest_free(taken: &BTreeMap<u64, u64>, top: u64, bytes: u64) -> Option<u64> {
    let below = |end: u64| end.checked_sub(bytes).map(|start| start / ALIGNMENT_BYTES * ALIGNMENT_BYTES);
    let mut start = below(top)?;
    for (at, len) in taken.range(..top).rev() {
        if start >= at + len {
            break;
        }
        start = below(*at)?;
    }
    Some(start)
}

/// Returns the next address of the script, or a free one if there is no
/// script; `None` when no address is free.
fn next_address(
    script: &mut Option<VecDeque<u64>>,
    taken: &BTreeMap<u64, u64>,
    free: impl FnOnce() -> Option<u64>,
    bytes: u64,
) -> Result<Option<u64>> {
    let Some(script) = script else { return Ok(free()) };
    let scripted = script.pop_front();
    let start = scripted.ok_or_else(|| Error::device("simulated", "the script has no more addresses"))?;
    if overlaps(taken, start, bytes) {
        return Err(Error::device("simulated", format!("the script returns {start:#x}, which is in use")));
    }
    Ok(Some(start))
}

/// Returns a free start by the device's order of addresses.
fn free_place(falls: bool, taken: &BTreeMap<u64, u64>, base: u64, top: u64, bytes: u64) -> Option<u64> {
    if falls { highest_free(taken, top, bytes) } else { lowest_free(taken, base, bytes) }
}

// SAFETY: live ranges are disjoint: `free_place` returns a gap between them, and
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
        let free = || free_place(*falls, live, BASE, TOP, bytes);
        let start = next_address(script, live, free, bytes)?;
        state.live.extend(start.map(|start| (start, bytes)));
        Ok(start.map(Address))
    }

    unsafe fn segment_free(&self, address: Address, bytes: u64) {
        let freed = self.state().live.remove(&address.0);
        debug_assert_eq!(freed, Some(bytes), "segment {address} was not handed out with {bytes} bytes");
    }

    fn range_reserve(&self, bytes: u64, _page_bytes: u64) -> Result<Option<Address>> {
        let mut state = self.state();
        let State { range_script, ranges, falls, .. } = &mut *state;
        let free = || free_place(*falls, ranges, RANGE_BASE, RANGE_TOP, bytes);
        let start = next_address(range_script, ranges, free, bytes)?;
        state.ranges.extend(start.map(|start| (start, bytes)));
        Ok(start.map(Address))
    }

    unsafe fn range_release(&self, address: Address, bytes: u64) {
        let released = self.state().ranges.remove(&address.0);
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
            state.pending.retain(|number, on| *on != stream || *number > mark.0);
        }
        Ok(())
    }

    unsafe fn forget(&self, mark: Mark) {
        self.state().pending.remove(&mark.0);
    }

    fn stream_number(&self, stream: StreamId) -> u64 {
        self.state().numbers.get(&stream).copied().unwrap_or(stream.handle())
    }
}
