//! The heap of this process as one device of a recorder.
#![forbid(unsafe_code)]

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use once_cell::race::OnceBox;

use super::blocks::{Blocks, LiveBlock};
#[cfg(target_os = "linux")]
use super::probes;
use crate::{
    process::{
        counter::settle_loads,
        fork::{self, UnlessStuck},
    },
    recorder::{OwnWork, Recorder, Track},
};
use memreel_lockfree::heap::{Inserted, LockedShard, Table};
use memreel_snapshot::words::{
    Action, Address, BlockState, DeviceId, Event, Inventory, InventoryBlock, InventorySegment, PoolId,
    StackId, StreamId, usage,
};

/// The heap that every [`Heap`](super::Heap) of the process reports to, once recording was first switched on.
///
/// A block's events are recorded under the lock of its shard, so the events of an address are in order, and the table
/// and the events agree while all shards are locked. The stack is captured before that, because a capture may take
/// locks of the loader.
#[derive(Debug)]
pub(super) struct ProcessHeap {
    track: Track,
    table: Table<Blocks, UnlessStuck>,
    /// Whether a block was ever recorded: most programs have no [`Heap`](super::Heap). Stored with release after the
    /// interval, which a snapshot then sees.
    is_used: AtomicBool,
    /// The heap's own sampling interval in bytes, or 0. Relaxed: `is_used` publishes it.
    sample_bytes: AtomicU64,
}

static HEAP: OnceBox<ProcessHeap> = OnceBox::new();

/// Makes the process's heap a device of a recorder, unless it already is one. It remains so for the life of the
/// process.
pub(crate) fn connect(recorder: &Recorder, device: DeviceId) {
    if HEAP.get().is_some() {
        return;
    }
    let track = recorder.track(device);
    HEAP.get_or_init(|| {
        Box::new(ProcessHeap {
            track,
            table: Table::default(),
            is_used: AtomicBool::new(false),
            sample_bytes: AtomicU64::new(0),
        })
    });
    fork::register_static(fork::Level::Allocator, hold);
}

/// Returns the heap as an inventory, if it is a device of this recorder and has recorded a block.
pub(crate) fn inventory_of(recorder: &Recorder) -> Option<&'static dyn Inventory> {
    let heap = HEAP.get()?;
    let is_shown = recorder.has(&heap.track) && heap.is_used.load(Ordering::Acquire);
    if is_shown {
        recorder.describe_device(heap.track.device(), usage::HEAP, "");
    }
    is_shown.then_some(heap as &dyn Inventory)
}

/// Holds the locks of the table during a fork.
fn hold(held: &mut fork::Held) {
    let Some(heap) = HEAP.get() else { return };
    heap.table.hold_for_fork(|is_held| _ = held.wait(is_held));
    held.call(
        || HEAP.get().into_iter().for_each(|heap| heap.table.begin_again_in_child()),
        || HEAP.get().into_iter().for_each(|heap| heap.table.release_after_fork()),
    );
}

impl ProcessHeap {
    /// Returns the heap; `None` until recording is first switched on.
    #[inline(always)]
    pub(super) fn get() -> Option<&'static ProcessHeap> {
        HEAP.get()
    }

    /// Returns whether it is a device of this recorder.
    pub(super) fn is_of(&self, recorder: &Recorder) -> bool {
        recorder.has(&self.track)
    }

    /// Records that a block was allocated, unless recording is off or a filter excludes it. `sample_bytes` is the
    /// heap's own sampling interval, or 0. The stack is captured unless `has_stack` is false.
    #[inline(always)]
    pub(super) fn allocated(&self, address: u64, bytes: u64, sample_bytes: u64, has_stack: bool) {
        if self.track.keeps(bytes, sample_bytes) {
            self.record_alloc(address, bytes, sample_bytes, has_stack);
        }
    }

    /// Records that a block will be freed, if its allocation was recorded. Returns whether it was. The stack is
    /// captured unless `has_stack` is false.
    #[inline(always)]
    pub(super) fn freed(&self, address: u64, has_stack: bool) -> bool {
        self.table.may_have(address)
            && self.record_free(address, has_stack, |shard, address| shard.remove(address))
    }

    /// Records that a request may move a block. Returns the request's number; `None` if the block is not recorded.
    ///
    /// Its free is recorded when the block has moved, or before another block is recorded at its old address; it is not
    /// recorded if the request fails.
    #[inline]
    pub(super) fn begin_move(&self, address: u64) -> Option<u32> {
        if !self.table.may_have(address) {
            return None;
        }
        let _work = OwnWork::begin()?;
        self.table.lock(address)?.begin_move(address)
    }

    /// Records that a block has moved, because the request of [`ProcessHeap::begin_move`] succeeded.
    #[inline]
    pub(super) fn moved(&self, address: u64, move_number: u32, has_stack: bool) {
        self.record_free(address, has_stack, |shard, address| shard.remove_moved(address, move_number));
    }

    /// Records that the program mapped a range itself. The stack is captured unless `has_stack` is false.
    pub(super) fn mapped(&self, range: Range<u64>, has_stack: bool) {
        let Some(work) = OwnWork::begin() else { return };
        let stack = if has_stack { self.track.stack_of_alloc_within(&work) } else { StackId::NONE };
        self.track.map_within(&work, of_pages(range), stack);
    }

    /// Records that the program unmaps a range.
    pub(super) fn unmapped(&self, range: Range<u64>) {
        if let Some(work) = OwnWork::begin() {
            self.track.unmap_within(&work, of_pages(range));
        }
    }

    #[inline(never)]
    fn record_alloc(&self, address: u64, bytes: u64, sample_bytes: u64, has_stack: bool) {
        let Some(work) = OwnWork::begin() else { return };
        let stack = if has_stack { self.track.stack_of_alloc_within(&work) } else { StackId::NONE };
        // Relaxed: threads at once store the same.
        if !self.is_used.load(Ordering::Relaxed) {
            self.sample_bytes.store(sample_bytes, Ordering::Relaxed);
            self.is_used.store(true, Ordering::Release);
            if sample_bytes > 0 {
                self.track.note_sampling(&work, sample_bytes);
            }
        }
        self.add(&work, LiveBlock { address, bytes, stack });
        self.track.keep_within(&work);
        #[cfg(target_os = "linux")]
        probes::allocated(address, bytes, || self.track.represented_bytes(bytes, sample_bytes));
    }

    #[inline(always)]
    fn add(&self, work: &OwnWork, block: LiveBlock) {
        self.track.make_room_within(work);
        self.table.remove_moved_from(&block, |shard, moved| {
            self.record_free_of(work, shard, moved, StackId::NONE);
        });
        let Some(mut shard) = self.table.lock(block.address) else { return self.track.count_lost() };
        match shard.insert(block) {
            Inserted::New => {}
            Inserted::Replaced(stale) => self.record_free_of(work, &mut shard, stale, StackId::NONE),
            Inserted::NoRoom => return self.track.count_lost(),
        }
        self.track.record_within(work, shard.newest(), event(Action::Alloc, block));
    }

    #[inline(never)]
    fn record_free(
        &self,
        address: u64,
        has_stack: bool,
        remove: impl FnOnce(&mut LockedShard<Blocks>, u64) -> Option<LiveBlock>,
    ) -> bool {
        let Some(work) = OwnWork::begin() else { return false };
        let stack = if has_stack { self.track.stack_of_free_within(&work) } else { StackId::NONE };
        self.track.make_room_within(&work);
        let Some(mut shard) = self.table.lock(address) else {
            self.track.count_lost();
            return false;
        };
        let Some(block) = remove(&mut shard, address) else { return false };
        self.record_free_of(&work, &mut shard, block, stack);
        drop(shard);
        self.track.keep_within(&work);
        #[cfg(target_os = "linux")]
        probes::freed(address);
        true
    }

    #[inline(always)]
    fn record_free_of(
        &self,
        work: &OwnWork,
        shard: &mut LockedShard<Blocks>,
        block: LiveBlock,
        stack: StackId,
    ) {
        let stack = stack.of_free(block.stack);
        let event = event(Action::FreeRequested, LiveBlock { stack, ..block });
        self.track.record_free_within(work, shard.newest(), event);
    }
}

/// Returns a range extended to the end of its last page, as the kernel maps it.
fn of_pages(range: Range<u64>) -> Range<u64> {
    if range.is_empty() {
        return range;
    }
    range.start..range.end.checked_next_multiple_of(rustix::param::page_size() as u64).unwrap_or(range.end)
}

fn event(action: Action, block: LiveBlock) -> Event {
    Event {
        action,
        address: Address(block.address),
        size_bytes: block.bytes,
        stream: StreamId::DEFAULT,
        pool: PoolId::DEFAULT,
        stack: block.stack,
    }
}

fn in_use(block: LiveBlock) -> InventoryBlock {
    InventoryBlock {
        address: Address(block.address),
        size_bytes: block.bytes,
        requested_bytes: block.bytes,
        state: BlockState::ActiveAllocated,
        stack: block.stack,
    }
}

impl Inventory for ProcessHeap {
    fn device(&self) -> DeviceId {
        self.track.device()
    }

    fn has_segments(&self) -> bool {
        false
    }

    fn sample_bytes(&self) -> Option<u64> {
        Some(self.sample_bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
    }

    fn inspect(&self, look: &mut dyn FnMut(&[InventorySegment])) {
        let work = OwnWork::begin();
        let Some(mut table) = self.table.lock_all() else { return look(&[]) };
        let mut blocks = Vec::with_capacity(table.shards().map(Blocks::len).sum());
        blocks.extend(table.shards().flat_map(Blocks::iter).map(in_use));
        let all = InventorySegment::of_blocks(blocks);
        // `look` may record events itself; what it allocates would find all shards locked.
        drop(work);
        // The clock that `look` reads is after the events of all shards.
        settle_loads();
        look(&[all]);
        table.set_newest(self.track.now_after_loads());
    }

    /// Threads that allocate wait for `cut`, and then for the copy of at most one shard.
    fn segments_at(&self, cut: &mut dyn FnMut(u64)) -> Vec<InventorySegment> {
        let work = OwnWork::begin();
        let Some((dump, mut table)) = self.table.begin_dump().zip(self.table.lock_all()) else {
            cut(0);
            return Vec::new();
        };
        table.mark(&dump);
        let n_blocks = table.shards().map(Blocks::len).sum();
        let n_bytes = table.shards().map(Blocks::n_bytes).sum();
        // As in `inspect`.
        drop(work);
        settle_loads();
        cut(n_bytes);
        table.set_newest(self.track.now_after_loads());
        drop(table);
        let _work = OwnWork::begin();
        let mut blocks = Vec::with_capacity(n_blocks);
        if !dump.each_block(|block| blocks.push(in_use(block))) {
            self.track.count_lost();
        }
        vec![InventorySegment::of_blocks(blocks)]
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::{fs, sync::mpsc, thread};

    use super::*;
    use crate::recorder::{Log, Recording};

    fn heap() -> (Recorder, ProcessHeap) {
        let recorder = Recorder::new();
        recorder.record_history(&Recording::all());
        let heap = ProcessHeap {
            track: recorder.track(DeviceId(0)),
            table: Table::default(),
            is_used: AtomicBool::new(false),
            sample_bytes: AtomicU64::new(0),
        };
        (recorder, heap)
    }

    /// Returns whether a thread of this process is waiting; `None` if it has ended.
    fn is_waiting(thread: i32) -> Option<bool> {
        let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
        stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with('S'))
    }

    /// Thousands of threads that start at once would otherwise wait for each other, and for each chunk.
    #[test]
    fn a_thread_opens_its_chunk_before_it_locks_a_shard() {
        let (_recorder, heap) = heap();
        // While another test forks, a thread may give up recording, and ends without a chunk.
        let is_free = (0..10).find_map(|nth| is_free_while_a_thread_waits(&heap, 0x5000 + nth * 0x1000));
        assert_eq!(is_free, Some(true), "the lock of a shard was held, or no thread ever waited");
        assert!(heap.table.lock_all().unwrap().shards().any(|shard| shard.len() > 0));
    }

    /// Returns whether an address has no lock while the thread that allocates it waits for a chunk; `None` if it does not wait.
    fn is_free_while_a_thread_waits(heap: &ProcessHeap, address: u64) -> Option<bool> {
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            let report = scope.spawn(move || {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                heap.allocated(address, 64, 0, false);
            });
            let is_free = heap.track.while_no_chunk_is_given(|| {
                let thread = told.recv().unwrap();
                while !is_waiting(thread)? {
                    thread::yield_now();
                }
                Some(heap.table.is_free(address))
            });
            report.join().unwrap();
            is_free
        })
    }

    /// The request of another thread has freed the old place, but has not returned.
    #[test]
    fn a_block_that_moves_is_freed_before_another_is_in_its_place() {
        let (_recorder, heap) = heap();
        let allocated = |address, bytes| heap.allocated(address, bytes, 0, false);
        allocated(0x10_000, 0x4000);
        allocated(0x40_000, 0x4000);
        let (moves, _fails) = (heap.begin_move(0x10_000).unwrap(), heap.begin_move(0x40_000).unwrap());
        allocated(0xE000, 0x3000);
        allocated(0x13_000, 0x1000);
        heap.moved(0x10_000, moves, false);
        allocated(0x20_000, 0x8000);
        let log = Log::of(heap.track.cut());
        let actions: Vec<_> = log
            .spans()
            .map(|span| (span.action, span.address))
            .filter(|(action, _)| {
                matches!(action, Action::Alloc | Action::FreeRequested | Action::FreeCompleted)
            })
            .collect();
        let expected = [
            (Action::Alloc, 0x10_000),
            (Action::Alloc, 0x40_000),
            (Action::FreeRequested, 0x10_000),
            (Action::FreeCompleted, 0x10_000),
            (Action::Alloc, 0xE000),
            (Action::Alloc, 0x13_000),
            (Action::Alloc, 0x20_000),
        ];
        assert_eq!(actions, expected.map(|(action, address)| (action, Address(address))));
        assert!(heap.freed(0x40_000, false) && !heap.table.has_moving());
    }
}
