//! Prints why requests failed: `cargo run -p memreel-snapshot --example why -- snapshot.pickle`.

use std::env::args_os;

use memreel_snapshot::{
    analysis::{DeviceHistory, devices, oom::Explanation},
    pickle,
};

fn main() -> memreel_snapshot::Result<()> {
    for path in args_os().skip(1) {
        let snapshot = pickle::load(path)?;
        for device in devices(&snapshot) {
            let history = DeviceHistory::new(&snapshot, device);
            if let Some(report) = history.oom() {
                println!("{}", Explanation::new(&history, report).text(5));
            }
        }
    }
    Ok(())
}
