//! A random allocator whose past is remembered.
//!
//! It asks no question of memreel and shares no code with it. Places are chosen by dice, not by best fit, because
//! the questions do not depend on the choice.

use super::past::{Block, Device, Event, Key, NEVER, Piece};
use crate::random::Random;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Several devices with one clock and one stack of scopes.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) devices: Vec<Device>,
    /// Stage, name, device and time of each beginning and end of a scope.
    pub(crate) marks: Vec<(&'static str, String, u64, i64)>,
    /// Names and devices, the newest last.
    scopes: Vec<(String, u64)>,
    time_us: i64,
    n_calls: usize,
}

impl World {
    /// A world of some devices after `n_steps` random steps; PyTorch 2.0 had neither expandable segments nor Intel's
    /// GPUs.
    pub(crate) fn new(random: &mut Random, n_steps: usize, is_modern: bool) -> World {
        let n_devices = 1 + random.below(3);
        // Those of Intel's GPUs have the highest bit.
        let is_high = is_modern && random.chance(3);
        let base: u64 = if is_high { 0xff00_0000_0000_0000 } else { 0x7000_0000_0000 };
        let devices = (0..n_devices).map(|number| Device {
            number,
            is_expandable: is_modern && random.chance(2),
            base: base + (number << 40),
            ..Device::default()
        });
        let mut world = World {
            devices: devices.collect(),
            marks: Vec::new(),
            scopes: Vec::new(),
            time_us: 1_700_000_000_000_000,
            n_calls: 3 + random.index(5),
        };
        world.go_on(random, n_steps);
        world
    }

    /// Does some random steps.
    pub(crate) fn go_on(&mut self, random: &mut Random, n_steps: usize) {
        (0..n_steps).for_each(|_| self.step(random));
    }

    fn step(&mut self, random: &mut Random) {
        let device = random.index(self.devices.len());
        match random.below(100) {
            0..48 => self.alloc(random, device),
            48..82 => self.free(random, device),
            82..88 => self.complete(random, device),
            88..91 => self.give_back(random, device),
            91..93 => self.oom(random, device),
            93 => self.event(device, "snapshot", 0, 0, KEY, None, None),
            94..97 if self.scopes.len() < 3 => self.enter(random, device as u64),
            _ => self.leave(),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the columns of an event")]
    fn event(
        &mut self,
        device: usize,
        action: &'static str,
        address: u64,
        size: u64,
        key: Key,
        call: Option<usize>,
        allocated_by: Option<usize>,
    ) {
        self.time_us += 3;
        let (scope, device_scope) = (self.scope(|_| true), self.scope(|of| of == device as u64));
        let (time_us, stream, pool) = (self.time_us, key.stream, key.pool);
        let event =
            Event { action, address, size, stream, pool, time_us, call, allocated_by, scope, device_scope };
        self.devices[device].events.push(event);
    }

    /// The names of the open scopes of some devices, the outermost first.
    fn scope(&self, is_meant: impl Fn(u64) -> bool) -> String {
        let open = self.scopes.iter().filter(|(_, device)| is_meant(*device));
        open.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join("/")
    }

    fn alloc(&mut self, random: &mut Random, at: usize) {
        let (key, requested) = request(random);
        let call = random.index(self.n_calls);
        let size = requested.next_multiple_of(512);
        let device = &self.devices[at];
        let mut places: Vec<(u64, u64)> = Vec::new();
        for range in device.ranges(device.now()).iter().filter(|range| range.key == key) {
            let gaps = device.gaps(range, device.now(), |block| block.size);
            places.extend(gaps.into_iter().filter(|(_, bytes)| *bytes >= size));
        }
        let (address, free) = match places.is_empty() {
            true => self.grow(random, at, key, size, call),
            false => *random.pick(&places),
        };
        let least_rest = if key.is_small || self.devices[at].is_expandable { 512 } else { MIB + 1 };
        let size = if free - size >= least_rest { size } else { free };
        self.event(at, "alloc", address, requested, key, Some(call), Some(call));
        let from = self.devices[at].now();
        let block = Block { address, requested, size, key, call, from, freed: NEVER, until: NEVER };
        self.devices[at].blocks.push(block);
    }

    /// Takes memory from the device and returns the first address and the size of the new free stretch.
    fn grow(&mut self, random: &mut Random, at: usize, key: Key, size: u64, call: usize) -> (u64, u64) {
        let device = &self.devices[at];
        let now = device.now();
        let held: Vec<(u64, u64)> =
            device.ranges(now).iter().map(|range| (range.address, range.address + range.bytes)).collect();
        let is_free =
            |start: u64, bytes: u64| held.iter().all(|(from, to)| start + bytes <= *from || *to <= start);
        let base = device.base;
        if device.is_expandable {
            let page = if key.is_small { 2 * MIB } else { 20 * MIB };
            let n_pages = size.div_ceil(page);
            // Ranges of several streams may be adjacent.
            let zone = u64::from(key.is_small) + 2 * key.pool.1;
            let start = base + (1 << 36) + (zone << 33);
            let first = (random.below(3)..).find(|first| is_free(start + first * page, n_pages * page));
            let first = start + first.expect("there are always more pages") * page;
            self.event(at, "segment_map", first, n_pages * page, key, Some(call), None);
            for number in 0..n_pages {
                self.piece(at, first + number * page, page, key, true, call);
            }
            return (first, n_pages * page);
        }
        let bytes = match size {
            0..=MIB => 2 * MIB,
            _ if size < 10 * MIB => 20 * MIB,
            _ => size.next_multiple_of(2 * MIB),
        };
        let first = (random.below(8)..).find(|slot| is_free(base + slot * 2 * MIB, bytes));
        let first = base + first.expect("there is always more memory") * 2 * MIB;
        self.event(at, "segment_alloc", first, bytes, key, Some(call), None);
        self.piece(at, first, bytes, key, false, call);
        (first, bytes)
    }

    fn piece(&mut self, at: usize, address: u64, bytes: u64, key: Key, is_expandable: bool, call: usize) {
        let from = self.devices[at].now();
        self.devices[at].pieces.push(Piece { address, bytes, key, is_expandable, call, from, until: NEVER });
    }

    fn free(&mut self, random: &mut Random, at: usize) {
        let Some(block) = self.one_of(random, at, |block| block.freed == NEVER) else { return };
        self.end(at, block, "free_requested", random.index(self.n_calls));
        self.devices[at].blocks[block].freed = self.devices[at].now();
        if !random.chance(6) {
            self.completed(at, block, random.index(self.n_calls));
        }
    }

    fn complete(&mut self, random: &mut Random, at: usize) {
        let waits = |block: &Block| block.freed != NEVER && block.until == NEVER;
        if let Some(block) = self.one_of(random, at, waits) {
            self.completed(at, block, random.index(self.n_calls));
        }
    }

    fn completed(&mut self, at: usize, block: usize, call: usize) {
        self.end(at, block, "free_completed", call);
        self.devices[at].blocks[block].until = self.devices[at].now();
    }

    fn end(&mut self, at: usize, block: usize, action: &'static str, call: usize) {
        let Block { address, requested, key, call: allocated_by, .. } = self.devices[at].blocks[block];
        // Frees are other lines than allocations.
        self.event(at, action, address, requested, key, Some(100 + call), Some(allocated_by));
    }

    fn one_of(&self, random: &mut Random, at: usize, is_meant: impl Fn(&Block) -> bool) -> Option<usize> {
        let blocks = self.devices[at].blocks.iter().enumerate();
        let found: Vec<usize> = blocks.filter(|(_, block)| is_meant(block)).map(|(place, _)| place).collect();
        (!found.is_empty()).then(|| *random.pick(&found))
    }

    /// Returns a segment without blocks, or a run of free pages, to the device.
    fn give_back(&mut self, random: &mut Random, at: usize) {
        let device = &self.devices[at];
        let now = device.now();
        let is_empty = |piece: &Piece| {
            let end = piece.address + piece.bytes;
            piece.until == NEVER
                && device
                    .active(now)
                    .all(|block| block.address >= end || block.address + block.size <= piece.address)
        };
        let found: Vec<usize> = (0..device.pieces.len()).filter(|at| is_empty(&device.pieces[*at])).collect();
        if found.is_empty() {
            return;
        }
        let first = device.pieces[*random.pick(&found)].clone();
        let mut end = first.address;
        let mut ended = Vec::new();
        // Further free pages behind the first go with it, if the dice say so.
        while let Some(next) = found.iter().find(|at| {
            device.pieces[**at].address == end && device.pieces[**at].key == first.key && first.is_expandable
        }) {
            ended.push(*next);
            end += device.pieces[*next].bytes;
            if random.chance(2) {
                break;
            }
        }
        if !first.is_expandable {
            ended = found.into_iter().filter(|at| device.pieces[*at].address == first.address).collect();
            end = first.address + first.bytes;
        }
        let action = if first.is_expandable { "segment_unmap" } else { "segment_free" };
        self.event(at, action, first.address, end - first.address, first.key, None, None);
        let now = self.devices[at].now();
        ended.into_iter().for_each(|piece| self.devices[at].pieces[piece].until = now);
    }

    fn oom(&mut self, random: &mut Random, at: usize) {
        let (key, requested) = request(random);
        let (free, call) = (random.below(60 * MIB), random.index(self.n_calls));
        self.event(at, "oom", free, requested.next_multiple_of(512), key, Some(call), None);
    }

    fn enter(&mut self, random: &mut Random, device: u64) {
        let name = ["step", "forward", "backward"][random.index(3)].to_owned();
        self.time_us += 1;
        self.marks.push(("START", name.clone(), device, self.time_us));
        self.scopes.push((name, device));
    }

    /// Ends the newest scope, on the device on which it began.
    fn leave(&mut self) {
        let Some((name, device)) = self.scopes.pop() else { return };
        self.time_us += 1;
        self.marks.push(("END", name, device, self.time_us));
    }
}

const KEY: Key = Key { stream: 0, pool: (0, 0), is_small: true };

/// A random request: whom it is for, and its bytes.
fn request(random: &mut Random) -> (Key, u64) {
    let most = *random.pick(&[2 * KIB, 300 * KIB, MIB, 5 * MIB, 30 * MIB]);
    let requested = 1 + random.below(most);
    let stream = *random.pick(&[0, 0, 0, 7]);
    let pool = if random.chance(5) { (0, 1) } else { (0, 0) };
    (Key { stream, pool, is_small: requested.next_multiple_of(512) <= MIB }, requested)
}
