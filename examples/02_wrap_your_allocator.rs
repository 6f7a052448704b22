//! Wrap your allocator: one line, and it has a history and a snapshot.
//! `cargo run --example 02_wrap_your_allocator`
#![forbid(unsafe_code)]

use std::cell::Cell;

use memreel::recorder::{Recorder, Recording};
use memreel::{Address, Allocate, DeviceId, Recorded, StreamId, pickle, snapshot};

/// An allocator of your own: it hands out one block after the other and never reuses memory.
struct Arena {
    memory: Vec<u8>,
    used: Cell<usize>,
}

impl Allocate for Arena {
    type Block = usize; // where the block begins
    type Error = String;

    fn allocate(&self, bytes: u64) -> Result<usize, String> {
        let block = self.used.get();
        let end = usize::try_from(bytes).ok().and_then(|bytes| block.checked_add(bytes));
        self.used.set(end.filter(|end| *end <= self.memory.len()).ok_or("the arena is full")?);
        Ok(block)
    }

    fn deallocate(&self, _: usize) {}

    fn address_of(&self, block: &usize) -> Address {
        Address(self.memory[*block..].as_ptr().addr() as u64)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all());
    let arena = Arena { memory: vec![0; 2 << 20], used: Cell::new(0) };
    let arena = Recorded::new(arena, &recorder, DeviceId(0)); // the one line

    // Its own memory is a segment; without this line each block would be one.
    arena.ledger().segment_alloc(arena.inner().address_of(&0), 2 << 20, StreamId::DEFAULT);
    let [first, _second] = [arena.allocate(4096)?, arena.allocate(100_000)?];
    arena.deallocate(first);

    let snapshot = snapshot::collect(&recorder, &[arena.ledger()], Default::default());
    pickle::save(&snapshot, "snapshot.pickle")?;
    println!("wrote snapshot.pickle with {} events", snapshot.device_traces[0].len());
    Ok(())
}
