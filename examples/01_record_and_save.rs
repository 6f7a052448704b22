//! Record and save: switch recording on, allocate through memreel, write the snapshot.
//! `cargo run --example 01_record_and_save`
#![forbid(unsafe_code)]

use memreel::{Buffer, recorder::Recording};

fn main() -> memreel::Result<()> {
    memreel::record_history(&Recording::all())?;

    let weights = Buffer::<f32>::full(memreel::default_allocator()?, &[1000, 1000], 0.5)?;
    weights.annotate("weights"); // a name for the block, in viewers and answers
    for _step in 0..3 {
        let _scope = memreel::scope("forward")?; // names what this thread allocates inside
        let activations = weights.map(|w| w.max(0.0))?; // a new array of 4 MB
        let transposed = activations.transpose(0, 1)?; // a view: allocates nothing
        transposed.apply(|a| a * 2.0); // in place: allocates nothing
    } // the activations are freed here

    println!("peak: {} bytes", memreel::max_memory_allocated()?);
    memreel::save("snapshot.pickle")?; // while `weights` is alive, so that it is in the picture
    println!("wrote snapshot.pickle; drop it on https://pytorch.org/memory_viz");
    Ok(())
}
