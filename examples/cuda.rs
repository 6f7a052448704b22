//! Runs kernels on memory from memreel and on cudarc's own, checks that the results are equal, and measures
//! the cost of an allocation on each.
//!
//! Run `cargo run --release --features cuda-nvrtc --example cuda`; it writes `cuda.pickle`
//! (or to `--output FILE`) for pytorch.org/memory_viz.

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use cudarc::{
    driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg, result},
    nvrtc::compile_ptx,
};
use memreel::{
    Reel, cuda,
    device::Cuda,
    recorder::{Recording, StackKind},
};

const KERNELS: &str = r#"
extern "C" __global__ void multiply(const float* a, const float* b, float* c, unsigned width) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= width * width) return;
    float sum = 0.0f;
    for (unsigned k = 0; k < width; k++) sum += a[i / width * width + k] * b[k * width + i % width];
    c[i] = sum;
}
extern "C" __global__ void add_and_wave(const float* a, const float* b, float* c, unsigned width) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < width * width) c[i] = sinf(a[i] * 0.05f + b[i]);
}
"#;

const WIDTH: u32 = 256;

type ReplayAnswer<T> = Result<T, Box<dyn Error>>;

struct Kernels {
    multiply: CudaFunction,
    add_and_wave: CudaFunction,
}

impl Kernels {
    fn compile(context: &Arc<CudaContext>) -> ReplayAnswer<Kernels> {
        let module = context.load_module(compile_ptx(KERNELS)?)?;
        Ok(Kernels {
            multiply: module.load_function("multiply")?,
            add_and_wave: module.load_function("add_and_wave")?,
        })
    }
}

/// Square matrices on a GPU, in one of two kinds of memory.
trait Matrices {
    type Matrix;
    fn upload(&self, values: &[f32]) -> ReplayAnswer<Self::Matrix>;
    fn download(&self, matrix: &Self::Matrix) -> ReplayAnswer<Vec<f32>>;
    /// Runs a kernel on two matrices and returns a new one.
    fn launch(&self, kernel: &CudaFunction, a: &Self::Matrix, b: &Self::Matrix)
    -> ReplayAnswer<Self::Matrix>;
}

struct Plain(Arc<CudaStream>);

impl Matrices for Plain {
    type Matrix = CudaSlice<f32>;

    fn upload(&self, values: &[f32]) -> ReplayAnswer<CudaSlice<f32>> {
        Ok(self.0.clone_htod(values)?)
    }

    fn download(&self, matrix: &CudaSlice<f32>) -> ReplayAnswer<Vec<f32>> {
        Ok(self.0.clone_dtoh(matrix)?)
    }

    fn launch(
        &self,
        kernel: &CudaFunction,
        a: &CudaSlice<f32>,
        b: &CudaSlice<f32>,
    ) -> ReplayAnswer<CudaSlice<f32>> {
        let mut c = self.0.alloc_zeros::<f32>((WIDTH * WIDTH) as usize)?;
        let mut launch = self.0.launch_builder(kernel);
        launch.arg(a).arg(b).arg(&mut c).arg(&WIDTH);
        // SAFETY: the kernels take three matrices and their width.
        unsafe { launch.launch(LaunchConfig::for_num_elems(WIDTH * WIDTH))? };
        Ok(c)
    }
}

struct Recorded {
    memory: cuda::Memory,
    stream: Arc<CudaStream>,
}

impl Matrices for Recorded {
    type Matrix = cuda::Slice<f32>;

    fn upload(&self, values: &[f32]) -> ReplayAnswer<cuda::Slice<f32>> {
        Ok(self.memory.copy_from(values, &self.stream)?)
    }

    fn download(&self, matrix: &cuda::Slice<f32>) -> ReplayAnswer<Vec<f32>> {
        Ok(self.stream.clone_dtoh(matrix)?)
    }

    fn launch(
        &self,
        kernel: &CudaFunction,
        a: &cuda::Slice<f32>,
        b: &cuda::Slice<f32>,
    ) -> ReplayAnswer<cuda::Slice<f32>> {
        let mut c = self.memory.zeros::<f32>((WIDTH * WIDTH) as usize, &self.stream)?;
        {
            let (a, b, c) = (a.on(&self.stream), b.on(&self.stream), c.on_mut(&self.stream));
            let mut launch = self.stream.launch_builder(kernel);
            launch.arg(&a).arg(&b).arg(&c).arg(&WIDTH);
            // SAFETY: the kernels take three matrices and their width.
            unsafe { launch.launch(LaunchConfig::for_num_elems(WIDTH * WIDTH))? };
        }
        Ok(c)
    }
}

/// Runs some layers. Each makes matrices and drops those of the layer before.
fn compute<M: Matrices>(on: &M, kernels: &Kernels) -> ReplayAnswer<Vec<f32>> {
    let values: Vec<f32> = (0..WIDTH * WIDTH).map(|i| (i % 97) as f32 / 97.0).collect();
    let weights: Vec<M::Matrix> = (0..4)
        .map(|layer| on.upload(&values.iter().map(|v| (v + layer as f32 * 0.3) % 1.0).collect::<Vec<_>>()))
        .collect::<ReplayAnswer<_>>()?;
    let mut x = on.upload(&values)?;
    for _ in 0..5 {
        for weight in &weights {
            let product = on.launch(&kernels.multiply, &x, weight)?;
            x = on.launch(&kernels.add_and_wave, &product, &x)?;
        }
    }
    on.download(&x)
}

const PAIRS: u32 = 20_000;
const ROUNDS: usize = 9;

/// Returns the median of several rounds, in nanoseconds for one allocation and its drop.
fn time_of(mut pair: impl FnMut()) -> u128 {
    // Enough pairs, at three events each, to fill a ring of a million entries: the rounds measure steady recording.
    (0..350_000).for_each(|_| pair());
    let mut rounds: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..PAIRS).for_each(|_| pair());
            start.elapsed()
        })
        .collect();
    rounds.sort_unstable();
    rounds[ROUNDS / 2].as_nanos() / u128::from(PAIRS)
}

fn compare_costs(context: &Arc<CudaContext>, stream: &Arc<CudaStream>, reel: &Reel) -> ReplayAnswer<()> {
    let len = 250_000;
    let memory = reel.cuda(0)?;
    // SAFETY: the memory is not read.
    let plain = || drop(unsafe { stream.alloc::<f32>(len) }.expect("a megabyte"));
    // SAFETY: the memory is not read; each pointer is freed once.
    let bare = || unsafe {
        let pointer = result::malloc_async(stream.cu_stream(), len * 4).expect("a megabyte");
        result::free_async(pointer, stream.cu_stream()).expect("it is allocated");
    };
    // SAFETY: the memory is not read.
    let recorded = || drop(unsafe { memory.alloc::<f32>(len, stream) }.expect("a megabyte"));

    let tracked_ns = time_of(plain);
    // SAFETY: one stream is used, so there is nothing to track.
    unsafe { context.disable_event_tracking() };
    let untracked_ns = time_of(plain);
    let bare_ns = time_of(bare);
    reel.record_history(&Recording::off());
    let off_ns = time_of(recorded);
    reel.record_history(&Recording::all().stacks(StackKind::None));
    let history_ns = time_of(recorded);
    reel.record_history(&Recording::all());
    let stacks_ns = time_of(recorded);

    println!("an allocation of 1 MB and its drop:");
    println!(
        "  cudarc {tracked_ns} ns, without event tracking {untracked_ns} ns, bare cuMemAllocAsync {bare_ns} ns"
    );
    println!("  memreel {off_ns} ns, with history {history_ns} ns, with native stacks {stacks_ns} ns");
    println!(
        "  memreel with history is {:.1} times as fast as cudarc without event tracking",
        untracked_ns as f64 / history_ns as f64
    );
    Ok(())
}

fn main() -> ReplayAnswer<()> {
    let output = std::env::args().skip_while(|arg| arg != "--output").nth(1);
    let output = output.unwrap_or_else(|| "cuda.pickle".into());
    let device = match Cuda::new(0) {
        Ok(device) => device,
        Err(why) => {
            println!("skipped: no CUDA device ({why})");
            return Ok(());
        }
    };
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let kernels = Kernels::compile(&context)?;
    let reel = Reel::builder().device(device).history(Recording::all()).build()?;

    let plain = compute(&Plain(stream.clone()), &kernels)?;
    let recorded = compute(&Recorded { memory: reel.cuda(0)?, stream: stream.clone() }, &kernels)?;
    assert_eq!(plain, recorded, "the same kernels on the same numbers");
    println!("{} results equal, their sum is {}", plain.len(), plain.iter().sum::<f32>());
    reel.save(&output)?;
    compare_costs(&context, &stream, &reel)
}
