//! The program's heap as a device: two lines, and every allocation is in the snapshot.
//! `cargo run --release --example 07_heap`, then `memreel top --device 1 heap.pickle`
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use memreel::recorder::Recording;

#[global_allocator]
static HEAP: memreel::Heap = memreel::Heap::new();

/// Counts the words of a text.
fn count(text: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word.to_lowercase()).or_insert(0) += 1;
    }
    counts
}

fn main() -> memreel::Result<()> {
    memreel::record_history(&Recording::all())?;
    let counts = {
        let _scope = memreel::scope("count")?; // names what is allocated inside
        count(include_str!("../README.md"))
    };
    memreel::save("heap.pickle")?;
    println!("{} words; wrote heap.pickle", counts.len());
    Ok(())
}
