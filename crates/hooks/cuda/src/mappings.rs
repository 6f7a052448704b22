//! Address ranges that have physical memory. Mappings are recorded; handles hold the memory.
//!
//! Memory that is mapped more than once is counted where it was mapped first. When that mapping ends, another one counts
//! it: it is recorded again, by the stack that mapped it.
#![forbid(unsafe_code)]

use memreel::{Address, StreamId, integrate::StackId, ledger::Ledger};

use super::{
    driver::driver,
    gpu::Account,
    looks::note,
    marks::marked,
    physical::{Owner, Physical, Piece},
    physical_table::{Bound, Handle, Id, Mapping, Table, account, drop_unused, table, unbind},
    state::{State, record},
    types::{Location, Status},
    unmapped::note_unmapped,
};

/// Records memory that was created under a handle.
pub(crate) fn created(handle: u64, bytes: u64, location: Location) {
    record(|state| {
        let owner = location.device().map_or(Owner::Host, Owner::Device);
        given_out(state, handle, Physical::new(owner, bytes));
        account(state, owner, Account::Physical, bytes, 1);
        let Owner::Device(device) = owner else { return None };
        state.totals.add(bytes, state.gpu(device)?);
        note_unmapped(state);
        Some(())
    });
}

fn given_out(state: &State, handle: u64, physical: Physical) {
    let mut table = table();
    let memory = table.add(physical);
    table.give(state, handle, memory);
}

/// Records another process's memory. The driver reports its location; otherwise it counts as on this thread's device.
pub(crate) fn imported(handle: u64) {
    record(|state| {
        let place = match driver().and_then(|driver| driver.location(handle)) {
            Some(location) => location.device(),
            None => state.current_gpu().map(|gpu| gpu.device),
        };
        let mut table = table();
        let memory = table.of(handle).unwrap_or_else(|| table.add(Physical::new(Owner::Other(place), 0)));
        table.give(state, handle, memory);
    });
}

/// Records a multicast object that was created. It has no memory itself.
pub(crate) fn multicast_created(handle: u64) {
    record(|state| given_out(state, handle, Physical::new(Owner::Multicast, 0)));
}

/// Notes that a handle is of a multicast object, which may have been imported.
pub(crate) fn is_multicast(handle: u64) {
    record(|_| {
        let mut table = table();
        let memory = table.of(handle).unwrap_or_else(|| table.add(Physical::new(Owner::Multicast, 0)));
        table.handles.entry(handle).or_insert(Handle { memory, n: 0 });
        table.physical.entry(memory).and_modify(|physical| physical.owner = Owner::Multicast);
    });
}

/// Notes memory that is bound to a multicast object, which holds it: that of a handle.
pub(crate) fn bound(multicast: u64, (offset, bytes): (u64, u64), handle: u64) {
    record(|_| bind(multicast, (offset, bytes), |table| table.of(handle)));
}

/// Notes memory that is bound to a multicast object: that at an address.
pub(crate) fn bound_at(multicast: u64, (offset, bytes): (u64, u64), address: u64) {
    record(|_| bind(multicast, (offset, bytes), |table| table.at(address)));
}

fn bind(multicast: u64, (offset, bytes): (u64, u64), find: impl Fn(&Table) -> Option<Id>) -> Option<()> {
    let mut table = table();
    let (multicast, memory) = (table.of(multicast)?, find(&table)?);
    table.physical.get_mut(&memory)?.n_bound += 1;
    table.bound.push(Bound { multicast, offset, bytes, memory });
    Some(())
}

/// Records that memory of a device is no longer bound.
pub(crate) fn unbound(multicast: u64, device: i32, (offset, bytes): (u64, u64)) {
    record(|state| {
        let mut table = table();
        let multicast = table.of(multicast)?;
        let gone = |table: &Table, bound: &Bound| {
            let owner = table.physical.get(&bound.memory).map(|physical| physical.owner);
            (bound.multicast, bound.offset, bound.bytes) == (multicast, offset, bytes)
                && matches!(owner, Some(Owner::Device(of) | Owner::Other(Some(of))) if of == device)
        };
        unbind(state, &mut table, gone);
        drop(table);
        note_unmapped(state);
        Some(())
    });
}

/// Records another handle of the memory that is mapped at an address.
pub(crate) fn retained(handle: u64, address: u64) {
    record(|state| {
        let mut table = table();
        let memory = table.at(address)?;
        table.give(state, handle, memory);
        Some(())
    });
}

/// Records that the program releases a handle, before the driver can reuse it; the memory remains while it is mapped or
/// bound.
pub(crate) fn release(handle: u64, call: impl Fn() -> Status) -> Status {
    let before = record(|state| {
        let mut table = table();
        let known = table.handles.get_mut(&handle)?;
        let memory = known.memory;
        known.n = known.n.saturating_sub(1);
        if known.n == 0 {
            table.handles.remove(&handle);
        }
        let physical = table.physical.get(&memory)?;
        let before = (memory, physical.owner, physical.bytes);
        table.take(state, memory, 1);
        drop(table);
        note_unmapped(state);
        Some(before)
    });
    let status = call();
    if let (false, Some(Some((memory, owner, bytes)))) = (status.is_success(), before) {
        record(|state| {
            let mut table = table();
            table.physical.entry(memory).or_insert_with(|| {
                account(state, owner, Account::Physical, bytes, 1);
                Physical::new(owner, bytes)
            });
            table.give(state, handle, memory);
            drop(table);
            note_unmapped(state);
        });
    }
    status
}

/// Records memory that was mapped: a part of a handle's memory, from an offset on.
pub(crate) fn mapped(address: u64, bytes: u64, offset: u64, handle: u64) {
    record(|state| {
        let range = offset..offset.saturating_add(bytes);
        let current = || state.current_gpu().map(|gpu| gpu.device);
        let known = || {
            let table = table();
            let physical = table.physical.get(&table.of(handle)?)?;
            Some((physical.owner, physical.is_counted(&range)))
        };
        // A handle that no call gave out is another process's.
        let (owner, is_counted) = known().unwrap_or_else(|| (Owner::Other(current()), false));
        let stack = |mark| marked(mark, || stack_of(state, owner)).unwrap_or(StackId::NONE);
        let uncounted = match owner {
            Owner::Other(_) => stack(Some("memory:imported")),
            _ if is_counted => stack(Some("memory:alias")),
            _ => StackId::NONE,
        };
        let counted = if matches!(owner, Owner::Other(_)) { uncounted } else { stack(None) };
        let mut table = table();
        let memory = table.of(handle).unwrap_or_else(|| table.add(Physical::new(owner, 0)));
        let mapping = Mapping { memory, range, stack: counted, uncounted };
        let physical = table.physical.entry(memory).or_insert_with(|| Physical::new(owner, 0));
        account(state, owner, Account::Mapped, physical.map(address, &mapping.range), 1);
        let pieces = physical.pieces(address, &mapping.range);
        table.mapped.insert(address, mapping.clone());
        drop(table);
        note_unmapped(state);
        write(state, owner, address, &mapping, &pieces);
        let Owner::Device(device) = owner else { return None };
        note(state, state.gpu(device)?);
        Some(())
    });
}

/// Records that memory is unmapped, before it can be mapped again.
pub(crate) fn unmap(address: u64, bytes: u64, call: impl Fn() -> Status) -> Status {
    let range = address..address.saturating_add(bytes);
    let gone: Vec<(u64, Mapping, Owner)> = record(|state| {
        let mut table = table();
        let within: Vec<u64> = table.mapped.range(range).map(|(at, _)| *at).collect();
        let mut gone = Vec::new();
        for at in within {
            if let Some(mapping) = table.mapped.remove(&at)
                && let Some(owner) = table.physical.get(&mapping.memory).map(|physical| physical.owner)
            {
                gone.push((at, mapping, owner));
            }
        }
        drop(table);
        gone.iter().for_each(|(at, mapping, owner)| erase(state, *owner, *at, mapping));
        gone
    })
    .unwrap_or_default();
    let status = call();
    for (at, mapping, owner) in gone {
        record(|state| match status.is_success() {
            true => ended(state, owner, at, &mapping),
            false => still_there(state, owner, at, mapping),
        });
    }
    status
}

/// Makes other mappings of the same memory count what an ended mapping counted.
fn ended(state: &State, owner: Owner, address: u64, mapping: &Mapping) {
    let mut table = table();
    let Table { physical, mapped, .. } = &mut *table;
    let Some(physical) = physical.get_mut(&mapping.memory) else { return };
    let (bytes, claims) = physical.unmap(address, &mapping.range);
    account(state, owner, Account::Mapped, bytes, -1);
    claims.iter().for_each(|(_, bytes)| account(state, owner, Account::Mapped, *bytes, 1));
    // All have claimed: what one does not count, another does.
    let heirs = claims.into_iter().filter_map(|(at, _)| {
        let heir = mapped.get(&at)?.clone();
        Some((physical.pieces(at, &heir.range), at, heir))
    });
    let heirs: Vec<(Vec<Piece>, u64, Mapping)> = heirs.collect();
    drop_unused(state, &mut table, mapping.memory);
    drop(table);
    note_unmapped(state);
    if !matches!(owner, Owner::Other(_)) {
        for (pieces, at, heir) in heirs {
            erase(state, owner, at, &heir);
            write(state, owner, at, &heir, &pieces);
        }
    }
}

/// Records again a mapping whose end failed.
fn still_there(state: &State, owner: Owner, address: u64, mapping: Mapping) {
    let mut table = table();
    let pieces = table.physical.get(&mapping.memory).map(|physical| physical.pieces(address, &mapping.range));
    table.mapped.insert(address, mapping.clone());
    drop(table);
    write(state, owner, address, &mapping, &pieces.unwrap_or_default());
}

/// Records the pieces of a mapping, each of which is a segment in use: blocks of an allocator that are in it, as PyTorch's,
/// take the place of its own when their history is merged.
fn write(state: &State, owner: Owner, address: u64, mapping: &Mapping, pieces: &[Piece]) {
    let Some(ledger) = ledger(state, owner) else { return };
    for Piece { range, is_counted } in pieces {
        let at = Address(address + (range.start - mapping.range.start));
        let stack = if *is_counted { mapping.stack } else { mapping.uncounted };
        let _counted = ledger.block_map_by(at, range.end - range.start, StreamId::DEFAULT, stack);
    }
}

/// Records the end of the pieces of a mapping.
fn erase(state: &State, owner: Owner, address: u64, mapping: &Mapping) {
    if let Some(ledger) = ledger(state, owner) {
        let _counted = ledger.block_unmap(Address(address), mapping.range.end - mapping.range.start);
    }
}

/// Returns the ledger for an owner's memory; none for a multicast object.
fn ledger(state: &State, owner: Owner) -> Option<&Ledger> {
    match owner {
        Owner::Device(device) | Owner::Other(Some(device)) => Some(state.gpu(device)?.ledger()),
        Owner::Host | Owner::Other(None) => Some(state.pinned()),
        Owner::Multicast => None,
    }
}

/// Captures the stack of a segment.
fn stack_of(state: &State, owner: Owner) -> Option<StackId> {
    Some(ledger(state, owner)?.stack_of_segment())
}
