//! Predictions of sizes: those of programs whose laws were planted (`planted`), and of training runs of PyTorch whose peaks at
//! further sizes were measured (`trained`, which `sized_recording` reads). `changed` compares changed programs with those that were run so.
#![forbid(unsafe_code)]

mod changed;
mod planted;
mod sized_recording;
mod trained;
mod windows;

use memreel::{
    DeviceId, Result, Snapshot,
    analysis::StackNumbers,
    fit::{Size, SizedRun, Sizes},
};

/// Calls `ask` with the runs of some sizes.
fn with_sizes<T>(runs: &[(u64, &Snapshot)], ask: impl FnOnce(Result<Sizes<'_>>) -> T) -> T {
    let mut stacks = StackNumbers::default();
    let sized: Vec<SizedRun> = runs
        .iter()
        .map(|(size, snapshot)| {
            SizedRun::new(Size::new(*size).unwrap(), snapshot, DeviceId(0), &[], &mut stacks).unwrap()
        })
        .collect();
    ask(Sizes::new(&sized.iter().collect::<Vec<_>>()))
}
