//! Restores, in a new allocator, the segments and blocks that an allocator held at one moment.
//!
//! The memory comes from the device, which must give each segment at its own address. So everything that is released
//! later was taken from the device before, as after any other growth.

use super::{
    allocation::Allocation,
    block::Block,
    caching_allocator::CachingAllocator,
    core::{Core, Grant, LARGE, SMALL},
    growth::Growth,
    ids::{BlockId, PoolIndex, RangeIndex},
    settings::Settings,
    size,
    supply::Range,
};
use crate::device::Deed;
use memreel_snapshot::words::{
    Address, BlockState, Error, InventoryBlock, InventorySegment, PoolId, PoolKind, Result, StackId, StreamId,
};

/// The segments of an allocator at one moment, with the ranges that are reserved for expandable ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    /// By address. Adjacent free blocks of a segment are one block.
    pub(crate) segments: Vec<InventorySegment>,
    /// By address.
    pub(crate) ranges: Vec<ReservedRange>,
}

/// The reserved addresses of an expandable segment, parts of which are mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReservedRange {
    pub(crate) base: Address,
    /// The most bytes that the range can have: it ends before the next one.
    pub(crate) room_bytes: u64,
    /// The bytes from its base to the end of what was mapped.
    pub(crate) mapped_bytes: u64,
    pub(crate) page_bytes: u64,
    pub(crate) stream: StreamId,
    pub(crate) kind: PoolKind,
    pub(crate) pool: PoolId,
}

/// A block in use, as far as it is known from a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UsedBlock {
    pub(crate) address: Address,
    pub(crate) requested_bytes: u64,
    /// The size of the block; `None` if it follows from the request and the settings.
    pub(crate) size_bytes: Option<u64>,
    /// Its end, if a later block shows it.
    pub(crate) end: Option<Address>,
}

/// Divides a segment into the blocks in use, given by address, and the free blocks between them. Returns `None` if they
/// do not fit.
///
/// A free block is always larger than the smallest remainder that is split off (`docs/caching-allocator.md` 2.4). A
/// smaller gap after a block therefore belongs to it.
pub(crate) fn divide(
    segment: &InventorySegment,
    used: &[UsedBlock],
    settings: &Settings,
) -> Option<Vec<InventoryBlock>> {
    let is_expandable = segment.is_expandable || settings.expandable_segments;
    let end = segment.address.offset(segment.size_bytes);
    let mut blocks = Vec::new();
    let mut at = segment.address;
    let free_until = |at: &mut Address, until: Address, blocks: &mut Vec<InventoryBlock>| {
        if *at < until {
            blocks.push(block(*at, until - *at, 0, BlockState::Inactive));
            *at = until;
        }
    };
    for (number, found) in used.iter().enumerate() {
        let next = used.get(number + 1).map_or(end, |next| next.address);
        let next = found.end.map_or(next, |end| end.min(next));
        if found.address < at || next <= found.address || end < next {
            return None;
        }
        let room_bytes = next - found.address;
        let rounded_bytes = size::round(found.requested_bytes, settings);
        let size_bytes = match found.size_bytes {
            Some(size_bytes) => size_bytes,
            None => {
                let rest_bytes = room_bytes.checked_sub(rounded_bytes)?;
                match size::splits(segment.kind, is_expandable, rounded_bytes, rest_bytes, settings) {
                    true => rounded_bytes,
                    false => room_bytes,
                }
            }
        };
        if size_bytes > room_bytes {
            return None;
        }
        free_until(&mut at, found.address, &mut blocks);
        blocks.push(block(at, size_bytes, found.requested_bytes, BlockState::ActiveAllocated));
        at = at.offset(size_bytes);
    }
    free_until(&mut at, end, &mut blocks);
    Some(blocks)
}

fn block(address: Address, size_bytes: u64, requested_bytes: u64, state: BlockState) -> InventoryBlock {
    InventoryBlock { address, size_bytes, requested_bytes, state, stack: StackId::NONE }
}

impl ReservedRange {
    /// Returns the size of the range on a device of `total_bytes` bytes.
    pub(crate) fn bytes(&self, total_bytes: u64) -> u64 {
        let room_bytes = self.room_bytes / self.page_bytes * self.page_bytes;
        size::range_bytes(total_bytes, self.page_bytes).min(room_bytes).max(self.mapped_bytes)
    }
}

impl Layout {
    /// Returns the segments that are mapped in the range.
    pub(crate) fn mapped(&self, range: &ReservedRange) -> &[InventorySegment] {
        let end = range.base.offset(range.mapped_bytes);
        let before = |address: Address| self.segments.partition_point(|segment| segment.address < address);
        &self.segments[before(range.base)..before(end)]
    }

    /// Extends the block that ends at an address into the free block after it. Returns whether a block for its request
    /// can be that long (`docs/caching-allocator.md` 2.4).
    pub(crate) fn lengthen(&mut self, end: Address, by_bytes: u64, settings: &Settings) -> bool {
        let n_before = self.segments.partition_point(|segment| segment.address < end);
        let Some(segment) = n_before.checked_sub(1).map(|index| &mut self.segments[index]) else {
            return false;
        };
        let is_expandable = segment.is_expandable || settings.expandable_segments;
        let n_before = segment.blocks.partition_point(|block| block.address < end);
        let Some((blocks, [free, ..])) = segment.blocks.split_at_mut_checked(n_before) else { return false };
        let Some(block) = blocks.last_mut().filter(|block| block.state.is_active()) else { return false };
        let rounded_bytes = size::round(block.requested_bytes, settings);
        let rest_bytes = (block.size_bytes + by_bytes).saturating_sub(rounded_bytes);
        let splits = size::splits(segment.kind, is_expandable, rounded_bytes, rest_bytes, settings);
        if splits || free.state.is_active() || free.address != end || free.size_bytes <= by_bytes {
            return false;
        }
        block.size_bytes += by_bytes;
        (free.address, free.size_bytes) = (end.offset(by_bytes), free.size_bytes - by_bytes);
        true
    }

    /// Returns the steps that a device must take before an allocator can be restored on it.
    pub(crate) fn deeds(&self) -> Vec<Deed> {
        let ordinary = self.segments.iter().filter(|segment| !segment.is_expandable);
        let gave = |&InventorySegment { address, size_bytes, .. }: &_| Deed::Gave { address, size_bytes };
        let mapped = |&InventorySegment { address, size_bytes, stream, .. }: &_| {
            let owner = (stream, 0);
            Deed::Mapped { address, size_bytes, owner }
        };
        let mut deeds: Vec<Deed> = ordinary.map(gave).collect();
        for range in &self.ranges {
            deeds.push(Deed::Reserved(range.base));
            deeds.extend(self.mapped(range).iter().map(mapped));
        }
        deeds
    }
}

impl CachingAllocator {
    /// Restores segments and blocks in an empty allocator. Private pools must exist. Nothing is recorded. Returns the
    /// blocks in use.
    ///
    /// # Errors
    /// [`is_device`](Error::is_device) if the device does not give a segment at its address;
    /// [`is_misuse`](Error::is_misuse) for a private pool that does not exist.
    pub(crate) fn restore(&self, layout: &Layout) -> Result<Vec<Allocation>> {
        let mut growth = self.shared.growth();
        let mut used = Vec::new();
        for segment in layout.segments.iter().filter(|segment| !segment.is_expandable) {
            growth.restore_segment(segment, &mut used)?;
        }
        for range in &layout.ranges {
            growth.restore_range(range, layout.mapped(range), &mut used)?;
        }
        drop(growth);
        let handle = |(grant, block, stream): (Grant, InventoryBlock, StreamId)| {
            Allocation::new(self.shared.clone(), grant, block.requested_bytes, stream, block.stack)
        };
        Ok(used.into_iter().map(handle).collect())
    }
}

/// The restored blocks in use, with their streams.
type Used = Vec<(Grant, InventoryBlock, StreamId)>;

impl Growth<'_> {
    fn restore_segment(&mut self, segment: &InventorySegment, used: &mut Used) -> Result<()> {
        let &InventorySegment { address, size_bytes, stream, stack, .. } = segment;
        let pool = self.restored_pool(segment.pool, segment.kind)?;
        let given = self.unlocked(|device| device.segment_alloc(size_bytes))?;
        at_its_address(given, address)?;
        self.supply.count_taken(size_bytes);
        self.stats.segment.add(segment.kind, 1);
        self.stats.reserved_bytes.add(segment.kind, size_bytes);
        if self.settings.is_oversize(size_bytes) {
            self.stats.oversize_segments.change(1);
        }
        self.count_device_alloc(pool, 1);
        let whole = self.blocks.insert(Block::segment(address, size_bytes, stream, pool, stack));
        self.restore_blocks(whole, segment, used);
        Ok(())
    }

    fn restore_range(
        &mut self,
        range: &ReservedRange,
        mapped: &[InventorySegment],
        used: &mut Used,
    ) -> Result<()> {
        let &ReservedRange { base, page_bytes, stream, kind, .. } = range;
        let pool = self.restored_pool(range.pool, kind)?;
        let bytes = range.bytes(self.supply.device().total_bytes());
        let given = self.unlocked(|device| device.range_reserve(bytes, page_bytes))?;
        at_its_address(given, base)?;
        let index = self.supply.add_range(Range { base, bytes, page_bytes });
        let mut rest = Some(self.blocks.insert(Block::range(base, bytes, stream, pool, index)));
        for segment in mapped {
            let Some(unmapped) = rest else { break };
            let before_bytes = segment.address - self.blocks[unmapped].address;
            if before_bytes > 0 {
                let before = self.blocks.split(unmapped, before_bytes);
                self.insert_free(before);
            }
            let is_last = self.blocks[unmapped].bytes == segment.size_bytes;
            let whole = if is_last { unmapped } else { self.blocks.split(unmapped, segment.size_bytes) };
            rest = (!is_last).then_some(unmapped);
            self.map_restored(whole, index)?;
            self.count_device_alloc(pool, 1);
            self.restore_blocks(whole, segment, used);
        }
        if let Some(rest) = rest {
            self.insert_free(rest);
        }
        Ok(())
    }

    /// Maps a block that has no memory completely.
    fn map_restored(&mut self, id: BlockId, range: RangeIndex) -> Result<()> {
        let Block { address, bytes, pool, .. } = self.blocks[id];
        let (start, page_bytes) = self.supply.range(range).whole_pages(address, bytes);
        if (start, page_bytes) != (address, bytes) {
            return Err(Error::device(
                "restored",
                format!("{bytes} bytes at {address:#x} are not whole pages"),
            ));
        }
        // SAFETY: these are whole pages of a reserved range (compared above), and the block was just cut from
        // the part of a new range that has no memory.
        if !self.unlocked(|device| unsafe { device.range_map(address, bytes) })? {
            return Err(Error::device("restored", format!("no room for the pages at {address:#x}")));
        }
        self.supply.count_taken(bytes);
        self.stats.reserved_bytes.add(pool.kind(), bytes);
        self.blocks[id].is_mapped = true;
        Ok(())
    }
}

impl Core {
    fn restored_pool(&mut self, id: PoolId, kind: PoolKind) -> Result<PoolIndex> {
        if id == PoolId::DEFAULT {
            return Ok(if kind == PoolKind::Small { SMALL } else { LARGE });
        }
        let pool = self.private.get(id).map(|private| private.pools[usize::from(kind == PoolKind::Large)]);
        pool.ok_or_else(|| Error::misuse(format!("there is no private pool {id}")))
    }

    /// Cuts a block that is a whole mapped stretch into the blocks of a segment.
    fn restore_blocks(&mut self, whole: BlockId, segment: &InventorySegment, used: &mut Used) {
        for (number, block) in segment.blocks.iter().enumerate() {
            let is_last = number + 1 == segment.blocks.len();
            let id = if is_last { whole } else { self.blocks.split(whole, block.size_bytes) };
            if block.state.is_active() {
                let grant = self.restore_used(id, block);
                used.push((grant, *block, segment.stream));
            } else {
                self.insert_free(id);
                let Block { bytes, range, pool, .. } = self.blocks[id];
                if range.is_none() && segment.blocks.len() > 1 {
                    self.stats.inactive_split.add(pool.kind(), 1);
                    self.stats.inactive_split_bytes.add(pool.kind(), bytes);
                }
            }
        }
    }

    fn restore_used(&mut self, id: BlockId, restored: &InventoryBlock) -> Grant {
        let requested_bytes = restored.requested_bytes;
        let block = &mut self.blocks[id];
        (block.is_allocated, block.requested_bytes, block.stack) = (true, requested_bytes, restored.stack);
        let (address, bytes, kind) = (block.address, block.bytes, block.pool.kind());
        self.stats.allocation.add(kind, 1);
        self.stats.allocated_bytes.add(kind, bytes);
        self.stats.active.add(kind, 1);
        self.stats.active_bytes.add(kind, bytes);
        self.stats.requested_bytes.add(kind, requested_bytes);
        if self.settings.is_oversize(bytes) {
            self.stats.oversize_allocations.change(1);
        }
        Grant { id, address, bytes }
    }

    fn insert_free(&mut self, id: BlockId) {
        let block = &mut self.blocks[id];
        self.pools[block.pool].insert(id, block);
    }
}

fn at_its_address(given: Option<Address>, address: Address) -> Result<()> {
    if given == Some(address) {
        return Ok(());
    }
    let given = given.map_or("nothing".to_owned(), |given| format!("{given:#x}"));
    Err(Error::device("restored", format!("the device gave {given} instead of {address:#x}")))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use super::*;
    use crate::{device::Simulated, process::testing::random::Random, recorder::Recorder};
    use memreel_snapshot::words::{DeviceId, Inventory};

    const MIB: u64 = 1 << 20;

    /// An allocator with its device and its blocks, by address.
    struct Side {
        device: Arc<Simulated>,
        allocator: CachingAllocator,
        live: BTreeMap<Address, Allocation>,
    }

    impl Side {
        fn new(settings: &Settings) -> Side {
            let device = Arc::new(Simulated::new(80 << 30));
            let track = Recorder::new().track(DeviceId(0));
            let allocator = CachingAllocator::with_settings(device.clone(), &track, settings.clone());
            Side { device, allocator, live: BTreeMap::new() }
        }

        fn step(&mut self, random: &mut Random) {
            match random.below(20) {
                0..12 => {
                    let most = *random.pick(&[MIB, 9 * MIB, 50 * MIB]);
                    let stream = StreamId(*random.pick(&[0, 0, 1]));
                    let block = self.allocator.alloc(1 + random.below(most), stream).unwrap();
                    self.live.insert(block.address(), block);
                }
                12..19 if !self.live.is_empty() => {
                    let address = *self.live.keys().nth(random.index(self.live.len())).unwrap();
                    self.live.remove(&address).unwrap().free().unwrap();
                }
                _ => self.allocator.empty_cache().unwrap(),
            }
        }

        /// Returns the segments, without the requested bytes of free blocks, which a restored allocator does not have.
        fn segments(&self) -> Vec<InventorySegment> {
            let mut segments = Vec::new();
            self.allocator.inspect(&mut |seen| segments = seen.to_vec());
            let blocks = segments.iter_mut().flat_map(|segment| &mut segment.blocks);
            blocks.filter(|block| !block.state.is_active()).for_each(|block| block.requested_bytes = 0);
            segments
        }

        fn layout(&self) -> Layout {
            let core = self.allocator.shared.core();
            let bases = core.blocks.iter().filter(|(_, block)| block.range.is_some() && block.prev.is_none());
            let mut layout = Layout { segments: Vec::new(), ranges: Vec::new() };
            for (id, block) in bases {
                let Range { base, bytes, page_bytes } = core.supply.range(block.range.unwrap());
                let chain = std::iter::successors(Some(id), |id| core.blocks[*id].next);
                let mapped = chain.map(|id| &core.blocks[id]).filter(|block| block.is_mapped);
                let end = mapped.map(|block| block.address.offset(block.bytes)).max().unwrap();
                layout.ranges.push(ReservedRange {
                    base,
                    room_bytes: bytes,
                    mapped_bytes: end - base,
                    page_bytes,
                    stream: block.stream,
                    kind: block.pool.kind(),
                    pool: PoolId::DEFAULT,
                });
            }
            drop(core);
            layout.ranges.sort_by_key(|range| range.base);
            layout.segments = self.segments();
            layout
        }

        fn restored(layout: &Layout, settings: &Settings) -> Side {
            let mut side = Side::new(settings);
            let deeds = layout.deeds();
            let n = deeds.len();
            side.device.play(deeds);
            side.device.play_on(n, (StreamId::DEFAULT, 0), true);
            let blocks = side.allocator.restore(layout).unwrap();
            side.device.stop_playing();
            side.live = blocks.into_iter().map(|block| (block.address(), block)).collect();
            side
        }
    }

    #[test]
    fn a_restored_allocator_goes_on_as_the_one_before_it() {
        let confs = ["", "expandable_segments:True", "max_split_size_mb:21", "large_segment_size_mb:12"];
        for seed in 0..80 {
            let mut random = Random::new(seed);
            let settings: Settings = random.pick(&confs).parse().unwrap();
            let mut side = Side::new(&settings);
            (0..random.below(150)).for_each(|_| side.step(&mut random));
            let mut restored = Side::restored(&side.layout(), &settings);
            assert_eq!(restored.segments(), side.segments(), "seed {seed}");
            let currents = |side: &Side| {
                let stats = side.allocator.stats().flatten().into_iter();
                stats.filter(|(name, _)| name.ends_with("current")).collect::<BTreeMap<_, _>>()
            };
            assert_eq!(currents(&restored), currents(&side), "seed {seed}");
            let steps = random.next();
            for side in [&mut side, &mut restored] {
                let mut random = Random::new(steps);
                (0..60).for_each(|_| side.step(&mut random));
            }
            assert_eq!(restored.segments(), side.segments(), "seed {seed}, 60 steps later");
        }
    }

    #[test]
    fn a_small_rest_belongs_to_the_block_before_it() {
        let of = |kind, is_expandable, bytes| InventorySegment {
            address: Address(0),
            size_bytes: bytes,
            stream: StreamId(0),
            kind,
            pool: PoolId::DEFAULT,
            is_expandable,
            stack: StackId::NONE,
            blocks: Vec::new(),
        };
        let used = |address: u64, requested_bytes: u64| UsedBlock {
            address: Address(address),
            requested_bytes,
            size_bytes: None,
            end: None,
        };
        let sizes = |segment: &InventorySegment, used: &[UsedBlock], conf: &str| {
            let blocks = divide(segment, used, &conf.parse().unwrap())?;
            Some(blocks.iter().map(|block| (block.state.is_active(), block.size_bytes)).collect::<Vec<_>>())
        };
        let large = of(PoolKind::Large, false, 20 * MIB);
        let two = [used(2 * MIB, 3 * MIB), used(6 * MIB, 13 * MIB + 1)];
        // 1 MiB after each block is not split off; more is.
        let whole = vec![(false, 2 * MIB), (true, 4 * MIB), (true, 14 * MIB)];
        assert_eq!(sizes(&large, &two, ""), Some(whole));
        let apart = [used(0, 2 * MIB), used(4 * MIB, 2 * MIB - 1)];
        let split = vec![(true, 2 * MIB), (false, 2 * MIB), (true, 2 * MIB), (false, 14 * MIB)];
        assert_eq!(sizes(&large, &apart, ""), Some(split));
        let exact =
            vec![(false, 2 * MIB), (true, 3 * MIB), (false, MIB), (true, 13 * MIB + 512), (false, MIB - 512)];
        assert_eq!(sizes(&large, &two, "expandable_segments:True"), Some(exact.clone()));
        assert_eq!(sizes(&of(PoolKind::Large, true, 20 * MIB), &two, ""), Some(exact));
        assert_eq!(
            sizes(&large, &[used(0, 18 * MIB)], "max_split_size_mb:20"),
            Some(vec![(true, 18 * MIB), (false, 2 * MIB)])
        );
        let oversize = of(PoolKind::Large, false, 30 * MIB);
        assert_eq!(
            sizes(&oversize, &[used(0, 21 * MIB)], "max_split_size_mb:20"),
            Some(vec![(true, 30 * MIB)])
        );
        let ended = [UsedBlock { end: Some(Address(3 * MIB)), ..used(0, 2 * MIB + 1) }];
        assert_eq!(sizes(&large, &ended, ""), Some(vec![(true, 3 * MIB), (false, 17 * MIB)]));
        let overlap = [used(0, 3 * MIB), used(2 * MIB, 2 * MIB)];
        assert_eq!(sizes(&large, &overlap, ""), None);
        assert_eq!(sizes(&large, &[used(10 * MIB, 11 * MIB)], ""), None);
    }
}
