//! Snapshots without asking: at a peak, at a signal and at the exit.
//! `cargo run --example 08_triggers`
//!
//! The same for a program that does not mention them:
//! `MEMREEL='dump=peak:40MiB+signal+exit,file=runs/{cause}-{pid}-{time}.pickle,keep=5' target/debug/examples/train`
#![forbid(unsafe_code)]

use std::{thread, time::Duration};

use memreel::{
    recorder::Recording,
    trigger::{Signal, Triggers},
};

fn main() -> memreel::Result<()> {
    memreel::record_history(&Recording::all())?;
    let triggers =
        Triggers::to("runs/{cause}-{pid}-{time}.pickle").peak_above(40 << 20).signal(Signal::USR2).exit();
    memreel::dump_on(&triggers.keep(5))?;

    let weights = memreel::alloc(10 << 20)?;
    {
        let _scope = memreel::scope("a step that needs much");
        let _activations = memreel::alloc(50 << 20)?;
    }
    println!("kill -USR2 {} within five seconds writes one more", std::process::id());
    thread::sleep(Duration::from_secs(5));
    drop(weights);
    println!("next: memreel runs/exit-*.pickle");
    Ok(())
}
