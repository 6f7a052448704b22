//! What unit tests and models store and how they wait.

use std::{
    alloc::{Layout, alloc, dealloc, realloc},
    collections::BTreeMap,
    ops::Deref,
    ptr::NonNull,
};

use crate::{
    events::{Lines, Memory, on_heap},
    forks::{Pages, Process},
    heap::{Block, Blocks, Inserted},
    sync::Waits,
};

/// Lets another thread run.
#[derive(Debug)]
pub(crate) struct Yields;

impl Waits for Yields {
    fn again(_: u32) -> bool {
        #[cfg(memreel_loom)]
        loom::thread::yield_now();
        #[cfg(not(memreel_loom))]
        std::thread::yield_now();
        true
    }
}

/// The sizes of blocks by address.
#[derive(Debug, Default)]
pub(crate) struct Map(BTreeMap<u64, u64>);

impl Map {
    #[cfg(not(memreel_loom))]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[cfg(memreel_loom)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(address, bytes)| (*address, *bytes))
    }
}

impl Block for (u64, u64) {
    fn address(self) -> u64 {
        self.0
    }

    fn end(self) -> u64 {
        self.0 + self.1
    }
}

impl Blocks for Map {
    type Block = (u64, u64);
    /// With the room, which is that of one block at first.
    type Copied = (usize, BTreeMap<u64, u64>);

    fn insert(&mut self, (address, bytes): (u64, u64)) -> Inserted<(u64, u64)> {
        self.0.insert(address, bytes).map_or(Inserted::New, |before| Inserted::Replaced((address, before)))
    }

    fn remove(&mut self, address: u64) -> Option<(u64, u64)> {
        self.0.remove_entry(&address)
    }

    fn get(&self, address: u64) -> Option<(u64, u64)> {
        self.0.get_key_value(&address).map(|(address, bytes)| (*address, *bytes))
    }

    fn copy_to(&self, (room, copied): &mut Self::Copied) -> Result<(), usize> {
        if self.0.len() > *room {
            return Err(self.0.len());
        }
        copied.clone_from(&self.0);
        Ok(())
    }

    fn make_room((room, _): &mut Self::Copied, n: usize) {
        *room = n;
    }

    fn copied((_, copied): &Self::Copied) -> impl Iterator<Item = (u64, u64)> {
        copied.iter().map(|(address, bytes)| (*address, *bytes))
    }
}

/// A fork of nothing, whose memory is on the heap.
#[derive(Debug)]
pub(crate) struct Forking;

fn layout(n_bytes: usize) -> Layout {
    Layout::from_size_align(n_bytes, 16).unwrap()
}

// SAFETY: each call returns memory of the heap, and the allocator copies its contents.
unsafe impl Pages for Forking {
    unsafe fn grow(first: NonNull<u8>, n_before: usize, n_bytes: usize) -> Option<NonNull<u8>> {
        // SAFETY: the layouts have a size, and the memory is from the last call, by the contract.
        NonNull::new(unsafe {
            match n_before {
                0 => alloc(layout(n_bytes)),
                _ => realloc(first.as_ptr(), layout(n_before), n_bytes),
            }
        })
    }

    unsafe fn free(first: NonNull<u8>, n_bytes: usize) {
        // SAFETY: from `grow`, by the contract.
        unsafe { dealloc(first.as_ptr(), layout(n_bytes)) };
    }
}

impl Process for Forking {
    fn own_work() -> impl Sized {}

    fn begin() -> Option<Forking> {
        Some(Forking)
    }

    fn again(&self, n: u32) -> bool {
        Yields::again(n)
    }
}

/// Lines on the heap.
#[derive(Debug)]
pub(crate) struct OnHeap(Box<Lines>);

impl Default for OnHeap {
    fn default() -> OnHeap {
        OnHeap(on_heap())
    }
}

impl Deref for OnHeap {
    type Target = Lines;

    fn deref(&self) -> &Lines {
        &self.0
    }
}

impl Memory for OnHeap {}
