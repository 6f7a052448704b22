//! Records what programs allocate and free on GPUs, and from pools also on the host, by address: every device has its
//! own addresses.
#![forbid(unsafe_code)]

use memreel::{Address, StreamId, integrate::Refusal, ledger::Ledger};

use super::{
    completions,
    driver::driver,
    gpu::{Account, Gpu},
    held::HeldMap,
    intervals, looks,
    marks::marked,
    pools::{self, PoolPlace},
    state::{State, record},
    types::Status,
};

/// The kind of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The device's memory.
    Plain,
    /// Memory that moves between the host and devices.
    Managed,
    /// Memory of another process.
    Imported,
}

/// The frame of a block of managed memory.
const MANAGED: &str = "memory:managed";

/// A block that is allocated.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The number of its device; `None` on the host.
    device: Option<i32>,
    bytes: u64,
    stream: usize,
    account: Account,
    is_managed: bool,
    /// How often it is open: memory of another process has one address, however often it is opened.
    n_opened: u32,
}

impl Block {
    fn gpu(self, state: &State) -> Option<&Gpu> {
        state.gpu(self.device?)
    }

    fn ledger(self, state: &State) -> Option<&Ledger> {
        if self.device.is_none() { Some(state.pinned()) } else { Some(self.gpu(state)?.ledger()) }
    }

    /// Returns whether a stream-ordered free waits for the stream: what is in no sum of a device is free immediately.
    fn waits(self) -> bool {
        self.account != Account::Outside
    }

    fn alloc(self, state: &State, address: u64) -> Option<()> {
        let (ledger, stream) = (self.ledger(state)?, StreamId::from_handle(self.stream as u64));
        let mark = self.is_managed.then_some(MANAGED);
        let _counted = marked(mark, || ledger.alloc(Address(address), self.bytes, stream));
        self.account(state, 1);
        Some(())
    }

    fn free(self, state: &State, address: u64) {
        if let Some(ledger) = self.ledger(state) {
            let _counted = ledger.free(Address(address));
        }
        self.account(state, -1);
    }

    fn account(self, state: &State, sign: i64) {
        self.gpu(state).into_iter().for_each(|gpu| gpu.account(self.account, self.bytes, sign));
    }
}

/// The blocks of all devices by address.
static BLOCKS: HeldMap<u64, Block> = HeldMap::new();

/// Records an allocation of this thread's device, or memory of another process.
pub(crate) fn allocated(address: u64, bytes: u64, kind: Kind) {
    let (account, mark) = match kind {
        Kind::Plain => (Account::Pages, None),
        Kind::Managed => (Account::Outside, None),
        Kind::Imported => (Account::Outside, Some("memory:imported")),
    };
    record(|state| {
        if kind == Kind::Imported && is_open_again(address) {
            return None;
        }
        // Memory of another process may be on another device than this thread's.
        let place =
            if kind == Kind::Imported { driver().and_then(|driver| driver.device_at(address)) } else { None };
        let gpu = place.map_or_else(|| state.current_gpu(), |device| state.gpu(device))?;
        let (device, is_managed) = (Some(gpu.device), kind == Kind::Managed);
        let block = Block { device, bytes, stream: 0, account, is_managed, n_opened: 1 };
        marked(mark, || add(state, address, block))
    });
}

/// Records a stream-ordered allocation, from a pool or, without one, from the device's current pool.
pub(crate) fn allocated_on(address: u64, bytes: u64, stream: usize, pool: Option<usize>) {
    record(|state| {
        let current = || Some(state.current_gpu()?.device);
        let (device, account) = match pool.and_then(pools::place_of) {
            Some(PoolPlace::Device(device)) => (Some(device), Account::Pool),
            Some(PoolPlace::Managed) => (Some(current()?), Account::Outside),
            Some(PoolPlace::Host) => (None, Account::Outside),
            None => (Some(current()?), Account::Pool),
        };
        let is_managed = device.is_some() && account == Account::Outside;
        add(state, address, Block { device, bytes, stream, account, is_managed, n_opened: 1 })
    });
}

/// Counts another opening of a block in the table; returns whether there is such a block.
fn is_open_again(address: u64) -> bool {
    BLOCKS.lock().get_mut(&address).map(|block| block.n_opened += 1).is_some()
}

fn add(state: &'static State, address: u64, block: Block) -> Option<()> {
    let (Block { bytes, account, .. }, gpu) = (block, block.gpu(state));
    if let Some(gpu) = gpu.filter(|_| account == Account::Pool) {
        let freed_bytes = gpu.pending().forget(address, bytes);
        gpu.account(account, freed_bytes, -1);
    }
    block.alloc(state, address)?;
    if let Some(gpu) = gpu {
        state.totals.add(bytes, gpu);
    }
    BLOCKS.lock().insert(address, block);
    looks::note(state, gpu?);
    Some(())
}

/// Records a free, before the memory can be allocated again.
pub(crate) fn free(address: u64, call: impl Fn() -> Status) -> Status {
    let closed = record(|state| {
        let block = closed(address)?;
        if block.n_opened == 0 {
            block.free(state, address);
        }
        Some(block)
    });
    let status = call();
    still_has(status, address, closed.flatten(), |state, block| block.alloc(state, address));
    status
}

/// Counts one opening of a block less, and removes the block from the table if it is no longer open: its `n_opened` is
/// 0 then.
fn closed(address: u64) -> Option<Block> {
    let mut blocks = BLOCKS.lock();
    let block = blocks.get_mut(&address)?;
    block.n_opened -= 1;
    if block.n_opened == 0 { blocks.remove(&address) } else { Some(*block) }
}

/// Records a stream-ordered free: it is requested now, and completes when the stream has passed it.
pub(crate) fn free_on(address: u64, stream: usize, call: impl Fn() -> Status) -> Status {
    let closed = record(|state| {
        let block = closed(address)?;
        match block.n_opened {
            0 if block.waits() => _ = block.ledger(state)?.free_requested(Address(address)),
            0 => block.free(state, address),
            _ => {}
        }
        Some(block)
    });
    let status = call();
    let closed = closed.flatten();
    if status.is_success() {
        record(|state| {
            let block = closed.filter(|block| block.n_opened == 0 && block.waits())?;
            let (Block { bytes, account, .. }, gpu) = (block, block.gpu(state)?);
            // What is freed in stream order may have been allocated directly.
            if account != Account::Pool {
                gpu.account(account, bytes, -1);
                gpu.account(Account::Pool, bytes, 1);
            }
            completions::await_free(gpu, (address, bytes), stream)
        });
    }
    still_has(status, address, closed, |state, block| {
        if block.waits() {
            let _counted = block.ledger(state)?.free_completed(Address(address));
            block.account(state, -1);
        }
        block.alloc(state, address)
    });
    status
}

/// Restores a block whose free failed; records it again if the table has lost it.
fn still_has(
    status: Status,
    address: u64,
    closed: Option<Block>,
    again: impl FnOnce(&'static State, Block) -> Option<()>,
) {
    let Some(block) = closed.filter(|_| !status.is_success()) else { return };
    record(|state| {
        if is_open_again(address) {
            return None;
        }
        again(state, block)?;
        BLOCKS.lock().insert(address, Block { n_opened: 1, ..block })
    });
}

/// Records a request that the driver refused, and explains it.
pub(crate) fn refused(bytes: u64, stream: usize) {
    record(|state| {
        let gpu = state.current_gpu()?;
        looks::look_at_refusal(state, gpu);
        let info = driver()?.memory();
        let device_free_bytes = info.map_or(0, |info| info.total_bytes - info.used_bytes);
        let stream = StreamId::from_handle(stream as u64);
        let device_total_bytes = info.map_or(0, |info| info.total_bytes);
        state.refused(gpu, Refusal { bytes, stream, device_free_bytes, device_total_bytes });
        Some(())
    });
}

/// Forgets what was allocated on a device whose context ends.
pub(crate) fn forget(gpu: &Gpu) {
    let gone: Vec<_> = BLOCKS.lock().extract_if(|_, block| block.device == Some(gpu.device)).collect();
    for (address, block) in gone {
        let _counted = gpu.ledger().free(Address(address));
        gpu.account(block.account, block.bytes, -1);
    }
}

/// Returns the bytes of the allocation that an address is in.
pub(crate) fn size_at(address: u64) -> Option<u64> {
    driver()?.size_at(address)
}

/// Makes a look at all devices due soon: a pool has released memory.
pub(crate) fn look_soon() {
    intervals::want();
}
