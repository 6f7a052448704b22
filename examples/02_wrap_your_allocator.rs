//! Wrap your allocator: one line, and it has a history and a snapshot.
//! `cargo run --example 02_wrap_your_allocator`
#![forbid(unsafe_code)]

use std::sync::Mutex;

use memreel::recorder::{Recorder, Recording};
use memreel::{Address, Allocate, Recorded, StreamId};

/// An allocator of your own: it hands out one block after the other and never reuses memory.
struct Arena {
    memory: Vec<u8>,
    used: Mutex<usize>,
}

impl Allocate for Arena {
    type Block = usize; // where the block begins
    type Error = String;

    fn allocate(&self, bytes: u64) -> Result<usize, String> {
        let mut used = self.used.lock().map_err(|_| "another thread panicked")?;
        let block = *used;
        let end = usize::try_from(bytes).ok().and_then(|bytes| block.checked_add(bytes));
        *used = end.filter(|end| *end <= self.memory.len()).ok_or("the arena is full")?;
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
    let arena = Arena { memory: vec![0; 2 << 20], used: Mutex::default() };
    let arena = Recorded::new(arena, &recorder, 0); // the one line

    // Its own memory is a segment; without this line each block would be one.
    arena.ledger().segment_alloc(arena.inner().address_of(&0), 2 << 20, StreamId::DEFAULT)?;
    let [first, _second] = [arena.allocate(4096)?, arena.allocate(100_000)?];
    arena.deallocate(first);

    recorder.save("snapshot.pickle", [&arena])?;
    println!("wrote snapshot.pickle with {} events", recorder.n_events(0));
    Ok(())
}
