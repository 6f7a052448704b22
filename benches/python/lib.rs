//! Times an event with the Python frames of its thread, in a library that `benches/python/run.py` loads.
//!
//! ```text
//! cargo build --release --example python_cost
//! python3 benches/python/run.py target/release/examples/libpython_cost.so
//! ```

use std::{hint::black_box, time::Instant};

use memreel::{
    Action, Address, DeviceId, PoolId, StreamId,
    integrate::{Event, FrameSource, PythonFrames},
    recorder::{Context, Recorder, Recording, StackKind},
};

const N: u32 = 20_000;
const N_BATCHES: usize = 31;

/// Returns the nanoseconds of an event: 0 without a stack, 1 with native frames, 2 with those of Python, 3 with both.
/// 4 is the capture of Python frames alone.
#[unsafe(no_mangle)]
pub extern "C" fn python_cost(kind: i32) -> f64 {
    let python = PythonFrames::new();
    if kind == 4 {
        return median(|| _ = black_box(python.capture(&mut [0; 128])));
    }
    let stacks = match kind {
        0 => StackKind::None,
        1 => StackKind::Native,
        2 => StackKind::Python,
        _ => StackKind::All,
    };
    let recorder = Recorder::new();
    recorder.set_frame_source(python);
    recorder.record_history(&Recording::all().context(Context::All).stacks(stacks).max_entries(100_000));
    let track = recorder.track(DeviceId(0));
    median(|| {
        let stack = track.stack_of_alloc(512);
        track.record(Event {
            action: Action::Alloc,
            address: Address(0x1000),
            size_bytes: 512,
            stream: StreamId::DEFAULT,
            pool: PoolId::DEFAULT,
            stack,
        });
    })
}

/// The median of the batches, in nanoseconds a call.
fn median(mut call: impl FnMut()) -> f64 {
    let mut batches: Vec<f64> = (0..N_BATCHES)
        .map(|_| {
            let start = Instant::now();
            (0..N).for_each(|_| call());
            start.elapsed().as_secs_f64() * 1e9 / f64::from(N)
        })
        .collect();
    batches.sort_by(f64::total_cmp);
    batches[N_BATCHES / 2]
}
