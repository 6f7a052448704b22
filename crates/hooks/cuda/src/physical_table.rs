//! The table of physical memory: the program's handles, the mappings, and what is bound to multicast objects.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, ops::Range, sync::MutexGuard};

use memreel::integrate::StackId;
use rustc_hash::FxHashMap;

use super::{
    gpu::Account,
    held::HeldCell,
    physical::{Owner, Physical},
    state::State,
};

/// The number of physical memory. A handle does not identify it: one that is released may be given out again while what
/// it was of is still mapped.
pub(crate) type Id = u64;

/// A handle of the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle {
    pub(crate) memory: Id,
    /// How often the program has it.
    pub(crate) n: u32,
}

/// A range of addresses that has memory, by its beginning.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    pub(crate) memory: Id,
    /// Its part of the physical memory.
    pub(crate) range: Range<u64>,
    /// The stack that mapped it, for what this mapping counts, and for what it does not.
    pub(crate) stack: StackId,
    pub(crate) uncounted: StackId,
}

/// Memory that is bound to a multicast object, at an offset of that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) multicast: Id,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) memory: Id,
}

/// All known facts.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) handles: FxHashMap<u64, Handle>,
    pub(crate) physical: FxHashMap<Id, Physical>,
    pub(crate) mapped: BTreeMap<u64, Mapping>,
    pub(crate) bound: Vec<Bound>,
    /// The number that was given last.
    last: Id,
}

impl Table {
    pub(crate) fn add(&mut self, physical: Physical) -> Id {
        self.last += 1;
        self.physical.insert(self.last, physical);
        self.last
    }

    pub(crate) fn of(&self, handle: u64) -> Option<Id> {
        Some(self.handles.get(&handle)?.memory)
    }

    /// The memory that is mapped at an address.
    pub(crate) fn at(&self, address: u64) -> Option<Id> {
        let (at, mapping) = self.mapped.range(..=address).next_back()?;
        (address - at < mapping.range.end - mapping.range.start).then_some(mapping.memory)
    }

    /// Adds a handle of memory for the program.
    pub(crate) fn give(&mut self, state: &State, handle: u64, memory: Id) {
        let before = self.handles.get(&handle).copied().filter(|before| before.memory != memory);
        if let Some(Handle { memory: before, n }) = before {
            // It was released by calls that were not seen.
            self.handles.remove(&handle);
            self.take(state, before, n);
        }
        self.handles.entry(handle).or_insert(Handle { memory, n: 0 }).n += 1;
        self.physical.entry(memory).and_modify(|physical| physical.n_handles += 1);
    }

    /// Removes handles of memory.
    pub(crate) fn take(&mut self, state: &State, memory: Id, n: u32) {
        if let Some(physical) = self.physical.get_mut(&memory) {
            physical.n_handles = physical.n_handles.saturating_sub(n);
        }
        drop_unused(state, self, memory);
    }
}

/// Returns the table. The driver is not asked while it is locked.
pub(crate) fn table() -> MutexGuard<'static, Table> {
    static TABLE: HeldCell<Table> = HeldCell::new();
    TABLE.lock()
}

/// Stops counting memory that nothing holds; a multicast object no longer holds what is bound to it.
pub(crate) fn drop_unused(state: &State, table: &mut Table, memory: Id) {
    if table.physical.get(&memory).is_none_or(Physical::is_held) {
        return;
    }
    let Some(physical) = table.physical.remove(&memory) else { return };
    discount(state, &physical);
    if physical.owner == Owner::Multicast {
        unbind(state, table, |_, bound| bound.multicast == memory);
    }
}

/// Forgets what is bound to multicast objects, as far as `is_gone`.
pub(crate) fn unbind(state: &State, table: &mut Table, is_gone: impl Fn(&Table, &Bound) -> bool) {
    let (gone, stays): (Vec<Bound>, Vec<Bound>) = table.bound.iter().partition(|bound| is_gone(table, bound));
    table.bound = stays;
    for Bound { memory, .. } in gone {
        if let Some(physical) = table.physical.get_mut(&memory) {
            physical.n_bound = physical.n_bound.saturating_sub(1);
        }
        drop_unused(state, table, memory);
    }
}

/// Stops counting memory.
fn discount(state: &State, physical: &Physical) {
    account(state, physical.owner, Account::Physical, physical.bytes, -1);
    account(state, physical.owner, Account::Mapped, physical.counted_bytes(), -1);
}

pub(crate) fn account(state: &State, owner: Owner, account: Account, bytes: u64, sign: i64) {
    if let Owner::Device(device) = owner
        && let Some(gpu) = state.gpu(device)
    {
        gpu.account(account, bytes, sign);
    }
}
