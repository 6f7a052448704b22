//! Physical memory under handles, and where it is mapped.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memreel::{Address, StreamId, integrate::hold_at_forks, recorder::Ledger};
use once_cell::race::OnceBox;
use rustc_hash::FxHashMap;

use super::{
    gpu::Account,
    marks::marked,
    state::{State, record},
    types::{Location, Status},
};

/// What physical memory is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    /// A device, which has this number.
    Device(i32),
    /// The host.
    Host,
    /// Another process.
    Other,
}

/// Physical memory.
#[derive(Clone, Copy, Debug)]
struct Physical {
    owner: Owner,
    bytes: u64,
    /// How often the program has the handle.
    n_handles: u32,
    /// How often it is mapped.
    n_mapped: u32,
}

/// A part of a range of addresses that has memory.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    handle: u64,
    bytes: u64,
    /// The device whose ledger has it; `None` for the host.
    device: Option<i32>,
}

#[derive(Debug, Default)]
struct Table {
    physical: FxHashMap<u64, Physical>,
    mapped: std::collections::BTreeMap<u64, Mapping>,
}

fn table() -> MutexGuard<'static, Table> {
    static TABLE: OnceBox<Arc<Mutex<Table>>> = OnceBox::new();
    let table = TABLE.get_or_init(|| {
        let table = Arc::default();
        hold_at_forks(&table);
        Box::new(table)
    });
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes memory that was created under a handle.
pub(crate) fn created(handle: u64, bytes: u64, location: Location) {
    record(|state| {
        let owner =
            if location.kind == Location::DEVICE { Owner::Device(location.number) } else { Owner::Host };
        let before = table().physical.insert(handle, Physical { owner, bytes, n_handles: 1, n_mapped: 0 });
        // A handle that is given out again: its memory was given back by calls that were not seen.
        if let Some(Physical { owner: Owner::Device(device), bytes, .. }) = before {
            state.gpu(device)?.account(Account::Physical, bytes, -1);
        }
        let Owner::Device(device) = owner else { return None };
        let gpu = state.gpu(device)?;
        gpu.account(Account::Physical, bytes, 1);
        state.totals.add(bytes, gpu);
        state.waker.note(gpu);
        Some(())
    });
}

/// Notes memory of another process.
pub(crate) fn imported(handle: u64) {
    record(|_| {
        let known = Physical { owner: Owner::Other, bytes: 0, n_handles: 0, n_mapped: 0 };
        table().physical.entry(handle).or_insert(known).n_handles += 1;
    });
}

/// Notes one more handle of memory that is mapped.
pub(crate) fn retained(handle: u64) {
    record(|_| table().physical.get_mut(&handle).map(|physical| physical.n_handles += 1));
}

/// Notes that the program gives a handle back, before the driver can give it out again; the memory stays while it is
/// mapped.
pub(crate) fn release(handle: u64, call: impl Fn() -> Status) -> Status {
    let before = record(|state| {
        let mut table = table();
        let physical = table.physical.get_mut(&handle)?;
        let before = *physical;
        physical.n_handles = physical.n_handles.saturating_sub(1);
        drop_unused(state, &mut table, handle);
        Some(before)
    });
    let status = call();
    if let (false, Some(Some(before))) = (status.is_success(), before) {
        record(|state| {
            let was_dropped = table().physical.insert(handle, before).is_none();
            if let (true, Owner::Device(device)) = (was_dropped, before.owner) {
                state.gpu(device)?.account(Account::Physical, before.bytes, 1);
            }
            Some(())
        });
    }
    status
}

/// Records memory that was mapped.
pub(crate) fn mapped(address: u64, bytes: u64, handle: u64) {
    record(|state| {
        let mut table = table();
        let known = table.physical.get_mut(&handle).map(|physical| {
            physical.n_mapped += 1;
            *physical
        });
        let owner = known.map_or(Owner::Other, |known| known.owner);
        // Of another process, or of this one and mapped before: counted once, where it was mapped first.
        let is_shared = owner == Owner::Other || known.is_some_and(|known| known.n_mapped > 1);
        let device = match owner {
            Owner::Device(device) => Some(device),
            Owner::Host => None,
            Owner::Other => Some(state.current_gpu()?.device),
        };
        table.mapped.insert(address, Mapping { handle, bytes, device });
        drop(table);
        let ledger = ledger(state, device)?;
        marked(is_shared.then_some("memory:imported"), || {
            ledger.segment_map(Address(address), bytes, StreamId::DEFAULT)
        });
        Some(())
    });
}

/// Records that memory is unmapped, before it can be mapped again.
pub(crate) fn unmap(address: u64, bytes: u64, call: impl Fn() -> Status) -> Status {
    let range = address..address.saturating_add(bytes);
    let was: Vec<(u64, Mapping)> = record(|state| {
        let mut table = table();
        let was: Vec<(u64, Mapping)> =
            table.mapped.range(range).map(|(at, mapping)| (*at, *mapping)).collect();
        was.iter().for_each(|(at, _)| _ = table.mapped.remove(at));
        drop(table);
        for (at, mapping) in &was {
            ledger(state, mapping.device)?.segment_unmap(Address(*at), mapping.bytes);
        }
        Some(was)
    })
    .flatten()
    .unwrap_or_default();
    let status = call();
    for (at, mapping) in was {
        match status.is_success() {
            true => unmapped(mapping.handle),
            false => {
                forget_one(mapping.handle);
                mapped(at, mapping.bytes, mapping.handle);
            }
        }
    }
    status
}

fn unmapped(handle: u64) {
    record(|state| {
        let mut table = table();
        let physical = table.physical.get_mut(&handle)?;
        physical.n_mapped = physical.n_mapped.saturating_sub(1);
        drop_unused(state, &mut table, handle)
    });
}

fn forget_one(handle: u64) {
    record(|_| {
        table()
            .physical
            .get_mut(&handle)
            .map(|physical| physical.n_mapped = physical.n_mapped.saturating_sub(1))
    });
}

/// Takes memory off the account that has neither handle nor mapping.
fn drop_unused(state: &State, table: &mut Table, handle: u64) -> Option<()> {
    let physical = *table.physical.get(&handle)?;
    if physical.n_handles == 0 && physical.n_mapped == 0 {
        table.physical.remove(&handle);
        let Owner::Device(device) = physical.owner else { return None };
        state.gpu(device)?.account(Account::Physical, physical.bytes, -1);
    }
    Some(())
}

/// The ledger of a device; without one, that of the host's memory that devices can use.
fn ledger(state: &State, device: Option<i32>) -> Option<&Ledger> {
    match device {
        Some(device) => Some(state.gpu(device)?.ledger()),
        None => Some(state.pinned()),
    }
}
