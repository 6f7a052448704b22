//! Read and analyse: find out which stacks hold the memory at the peak of any snapshot, PyTorch's or memreel's.
//! `cargo run --example 04_read_and_analyse [FILE]`
#![forbid(unsafe_code)]

use memreel::{
    analysis::{By, DeviceHistory, ShownFrames, Site, devices},
    pickle,
};

const OUT_OF_MEMORY: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/torch-2.11/snapshots/oom_fragment.pickle");

fn main() -> memreel::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| OUT_OF_MEMORY.into());
    let snapshot = pickle::load(&path)?;
    let shown = ShownFrames::new(&snapshot);
    for device in devices(&snapshot) {
        let history = DeviceHistory::new(&snapshot, device);
        let peak = history.peak();
        let n_entries = peak.moment.n_entries();
        println!("device {device}: {} bytes at the peak, after {n_entries} events", peak.active_bytes);
        for group in history.top(peak.moment, By::Stack).iter().take(3) {
            println!("{:>12} bytes in {} blocks", group.bytes, group.n_blocks);
            let Site::Stack(stack) = group.site else { continue };
            for frame in shown.identifying(stack).take(3) {
                let frame = snapshot.stacks.frame(frame);
                println!("               {} ({}:{})", frame.name, frame.filename, frame.line);
            }
        }
    }
    Ok(())
}
