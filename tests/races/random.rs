//! Random programs over streams, threads, slices, views, pools and two GPUs, none of which may have a race.
//!
//! Each program uses memreel's public interface and cudarc's safe functions only. `MEMREEL_PROGRAMS` is the number
//! of programs, or a range of seeds such as `1000..2000`.
#![forbid(unsafe_code)]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Barrier},
    thread,
    time::Instant,
};

use cudarc::driver::{CudaContext, CudaStream, DeviceSlice, DriverError, sys};
use memreel::{
    PoolId, Reel,
    allocator::{PoolOptions, Route},
    cuda::{Memory, Slice},
    device::Cuda,
};
use memreel_testing::{random::Random, seeds::seeds};

use super::fake;

const N_GPUS: usize = 2;
const MAX_SLICES: usize = 8;

pub(crate) fn programs_have_no_race() {
    let seeds = seeds("MEMREEL_PROGRAMS", 0..1000);
    let (start, mut n_steps) = (Instant::now(), 0);
    for seed in seeds.clone() {
        n_steps += run(seed);
    }
    println!("programs with seeds {seeds:?}: {n_steps} steps in {:.1} s", start.elapsed().as_secs_f64());
}

/// Runs the program of a seed; returns the number of its steps.
fn run(seed: u64) -> usize {
    fake::reset(N_GPUS as u64, 64 << 20);
    let mut random = Random::new(seed);
    fake::progress(if random.chance(2) { 0 } else { random.next() | 1 });
    let steps: Vec<Step> = (0..10 + random.index(40)).map(|_| Step::random(&mut random)).collect();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut program = Program::new(&mut random);
        steps.iter().for_each(|step| program.step(*step));
        program.end(&mut random);
    }));
    let (violations, alive) = (fake::violations(), fake::alive());
    let is_fine = outcome.is_ok() && violations.is_empty() && alive.is_empty();
    assert!(is_fine, "seed {seed}: {violations}\nleft: {alive}\n{}", listed(&steps));
    steps.len()
}

fn listed(steps: &[Step]) -> String {
    steps.iter().map(|step| format!("{step:?}\n")).collect()
}

/// A step and the numbers that choose its operands.
#[derive(Clone, Copy, Debug)]
struct Step {
    what: What,
    numbers: [u8; 4],
    /// Whether a new thread takes the step, where no context is current.
    on_a_thread: bool,
}

/// Declares the kinds of steps, and how often each comes among all.
macro_rules! kinds {
    ($($kind:ident: $weight:literal,)*) => {
        #[derive(Clone, Copy, Debug)]
        enum What {
            $($kind,)*
        }

        const KINDS: &[(What, usize)] = &[$((What::$kind, $weight),)*];
    };
}

kinds! {
    Zeros: 3,
    CopyFrom: 1,
    Drop: 3,
    Set: 2,
    SetRange: 2,
    Copy: 4,
    CopyWithin: 1,
    CopyBetweenGpus: 1,
    Read: 1,
    Argument: 1,
    ReadTwice: 1,
    NewStream: 1,
    DropStream: 1,
    BeginPool: 1,
    EndPool: 1,
    EmptyCache: 1,
    Synchronize: 1,
    PendingError: 1,
}

impl Step {
    fn random(random: &mut Random) -> Step {
        let all = KINDS.iter().flat_map(|(what, weight)| std::iter::repeat_n(*what, *weight));
        let all: Vec<What> = all.collect();
        let numbers = std::array::from_fn(|_| random.below(256) as u8);
        Step { what: *random.pick(&all), numbers, on_a_thread: random.chance(8) }
    }
}

struct Gpu {
    context: Arc<CudaContext>,
    memory: Memory,
    streams: Vec<Arc<CudaStream>>,
    pools: Vec<(PoolId, bool)>,
}

struct Program {
    _reel: Reel,
    gpus: Vec<Gpu>,
    slices: Vec<Slice<u8>>,
}

/// Runs a call that an error of the context may keep from doing anything.
fn attempt(result: Result<(), DriverError>) {
    let _ = result;
}

impl Program {
    fn new(random: &mut Random) -> Program {
        let devices = Cuda::all().unwrap();
        let conf = if random.chance(4) { "expandable_segments:True" } else { "" };
        let builder = devices.into_iter().fold(Reel::builder(), memreel::Builder::device);
        let reel = builder.settings(conf.parse().unwrap()).build().unwrap();
        let gpus = (0..N_GPUS)
            .map(|ordinal| {
                let context = CudaContext::new(ordinal).unwrap();
                let streams = vec![context.default_stream(), context.new_stream().unwrap()];
                let memory = reel.cuda(ordinal).unwrap();
                let pools = vec![(memory.allocator().create_pool(PoolOptions::default()), false)];
                Gpu { context, memory, streams, pools }
            })
            .collect();
        Program { _reel: reel, gpus, slices: Vec::new() }
    }

    fn step(&mut self, step: Step) {
        if step.on_a_thread {
            thread::scope(|scope| scope.spawn(|| self.take(step)).join().unwrap());
        } else {
            self.take(step);
        }
    }

    /// Returns a stream of any GPU, or now and then the per-thread default stream.
    fn stream(&self, number: u8) -> Arc<CudaStream> {
        let number = usize::from(number);
        let gpu = &self.gpus[if number.is_multiple_of(5) { 1 } else { 0 }];
        let streams = &gpu.streams;
        let at = (number / 5) % (streams.len() + 1);
        streams.get(at).cloned().unwrap_or_else(|| gpu.context.per_thread_stream())
    }

    fn place(&self, number: u8) -> Option<usize> {
        usize::from(number).checked_rem(self.slices.len())
    }

    fn take(&mut self, step: Step) {
        let [a, b, c, d] = step.numbers;
        match step.what {
            What::Zeros | What::CopyFrom => self.allocate(step),
            What::Drop => {
                if let Some(at) = self.place(a) {
                    drop(self.slices.swap_remove(at));
                }
            }
            What::NewStream => {
                let gpu = &mut self.gpus[usize::from(a) % N_GPUS];
                if gpu.streams.len() < 5 {
                    gpu.streams.extend(gpu.context.new_stream());
                }
            }
            What::DropStream => {
                let gpu = &mut self.gpus[usize::from(a) % N_GPUS];
                let at = usize::from(b) % gpu.streams.len();
                // The default stream stays.
                if at > 0 {
                    drop(gpu.streams.swap_remove(at));
                }
            }
            What::BeginPool | What::EndPool => self.route(step),
            What::EmptyCache => {
                let _ = self.gpus[usize::from(a) % N_GPUS].memory.allocator().empty_cache();
            }
            What::Synchronize if a % 2 == 0 => attempt(self.stream(b).synchronize()),
            What::Synchronize => attempt(self.gpus[usize::from(b) % N_GPUS].context.synchronize()),
            What::PendingError => {
                let error = DriverError(sys::CUresult::CUDA_ERROR_LAUNCH_TIMEOUT);
                self.gpus[usize::from(a) % N_GPUS].context.record_err::<()>(Err(error));
            }
            _ => {
                if let Some(at) = self.place(a) {
                    self.use_slice(step.what, at, [b, c, d]);
                }
            }
        }
    }

    fn allocate(&mut self, step: Step) {
        let [a, b, c, _] = step.numbers;
        let gpu = &self.gpus[usize::from(a) % N_GPUS];
        let stream = &gpu.streams[usize::from(b) % gpu.streams.len()];
        let len = [1, 100, 512, 2000][usize::from(c) % 4];
        let made = match step.what {
            What::Zeros => gpu.memory.zeros::<u8>(len, stream),
            _ => gpu.memory.copy_from(&vec![c; len], stream),
        };
        self.slices.extend(made);
        if self.slices.len() > MAX_SLICES {
            self.slices.remove(0);
        }
    }

    fn route(&mut self, step: Step) {
        let [a, b, ..] = step.numbers;
        let Gpu { memory, pools, streams, .. } = &mut self.gpus[usize::from(a) % N_GPUS];
        let allocator = memory.allocator();
        let (pool, is_begun) = &mut pools[0];
        match (step.what, *is_begun) {
            (What::BeginPool, false) => {
                let stream = streams[usize::from(b) % streams.len()].cu_stream() as u64;
                let by_stream = Route::Streams(Box::new(move |other| other.handle() == stream));
                let route = if b % 2 == 0 { Route::Thread } else { by_stream };
                allocator.begin_pool(*pool, route).unwrap();
            }
            (What::EndPool, true) => {
                allocator.end_pool(*pool).unwrap();
                allocator.release_pool(*pool).unwrap();
            }
            _ => return,
        }
        *is_begun = !*is_begun;
    }

    fn use_slice(&mut self, what: What, at: usize, [b, c, d]: [u8; 3]) {
        let stream = self.stream(b);
        let other_stream = self.stream(d);
        let mut slice = self.slices.swap_remove(at);
        let middle = usize::from(c) * slice.len() / 256;
        let other = self.place(d);
        match (what, other) {
            (What::Set, _) => attempt(stream.memset_zeros(&mut slice)),
            (What::SetRange, _) => attempt(stream.memset_zeros(&mut slice.slice_mut(middle..))),
            (What::Copy, Some(other)) => {
                let target = &mut self.slices[other];
                let n = slice.len().min(target.len());
                attempt(stream.memcpy_dtod(&slice.slice(..n), &mut target.slice_mut(..n)));
            }
            (What::CopyWithin, _) => {
                let mut whole = slice.slice_mut(..);
                let (front, mut back) = whole.split_at_mut(middle);
                let n = front.len().min(back.len());
                attempt(stream.memcpy_dtod(&front.slice(..n), &mut back.slice_mut(..n)));
            }
            (What::CopyBetweenGpus, Some(other)) => {
                let target = &mut self.slices[other];
                let n = slice.len().min(target.len());
                let far = target.stream().clone();
                attempt(far.memcpy_dtod(&slice.slice(..n), &mut target.slice_mut(..n)));
            }
            (What::Read, _) => {
                let _ = stream.clone_dtoh(&slice.slice(middle..));
            }
            (What::Argument, _) => drop((slice.on(&stream), slice.slice(middle..).on(&other_stream))),
            (What::ReadTwice, _) => self.read_twice(&slice, &stream, &other_stream),
            _ => {}
        }
        self.slices.push(slice);
    }

    /// Two threads read a slice at the same time.
    fn read_twice(&mut self, slice: &Slice<u8>, first: &Arc<CudaStream>, second: &Arc<CudaStream>) {
        let [target, other_target, ..] = &mut self.slices[..] else { return };
        let barrier = Barrier::new(2);
        thread::scope(|scope| {
            for (stream, target) in [(first, target), (second, other_target)] {
                let barrier = &barrier;
                scope.spawn(move || {
                    let n = slice.len().min(target.len());
                    barrier.wait();
                    attempt(stream.memcpy_dtod(&slice.slice(..n), &mut target.slice_mut(..n)));
                });
            }
        });
    }

    fn end(mut self, random: &mut Random) {
        while !self.slices.is_empty() {
            let at = random.index(self.slices.len());
            drop(self.slices.swap_remove(at));
        }
        for Gpu { memory, streams, .. } in &self.gpus {
            // What comes back from the cache now is written while old work may run.
            streams.iter().for_each(|stream| drop(memory.zeros::<u8>(2000, stream)));
        }
    }
}
