//! Wrap your allocator: report what it does to a ledger, and it has a history and a snapshot.
//! `cargo run --example 02_wrap_your_allocator`
#![forbid(unsafe_code)]

use memreel::recorder::{History, Ledger, Recorder};
use memreel::{Address, DeviceId, StreamId, pickle, snapshot};

/// An allocator of your own: it hands out one block after the other and never reuses memory.
struct Arena {
    memory: Vec<u8>,
    used: usize,
    ledger: Ledger,
}

impl Arena {
    fn new(bytes: usize, ledger: Ledger) -> Arena {
        let memory = vec![0_u8; bytes];
        ledger.segment_alloc(Address(memory.as_ptr().addr() as u64), bytes as u64, StreamId::DEFAULT);
        Arena { memory, used: 0, ledger }
    }

    fn alloc(&mut self, bytes: usize) -> Address {
        let block = Address(self.memory[self.used..].as_ptr().addr() as u64);
        self.used += bytes;
        self.ledger.alloc(block, bytes as u64, StreamId::DEFAULT);
        block
    }
}

fn main() -> memreel::Result<()> {
    let recorder = Recorder::new();
    recorder.record_history(&History::all());
    let mut arena = Arena::new(2 << 20, recorder.ledger(DeviceId(0)));
    let [first, _second] = [arena.alloc(4096), arena.alloc(100_000)];
    arena.ledger.free(first); // report a free before the memory can be handed out again

    let snapshot = snapshot::collect(&recorder, &[&arena.ledger], Default::default());
    pickle::save(&snapshot, "snapshot.pickle")?;
    println!("wrote snapshot.pickle with {} events", snapshot.device_traces[0].len());
    Ok(())
}
