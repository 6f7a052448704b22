//! CUDA: a kernel on memory from memreel, on an NVIDIA GPU, and the snapshot of that memory.
//! `cargo run --features cuda-nvrtc --example 06_cuda`

use cudarc::{
    driver::{CudaContext, LaunchConfig, PushKernelArg},
    nvrtc::compile_ptx,
};
use memreel::{Reel, device::Cuda, recorder::Recording};

const KERNEL: &str = r#"
extern "C" __global__ void double_it(const float* x, float* y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = match Cuda::new(0) {
        Ok(device) => device,
        Err(why) => {
            println!("skipped: no CUDA device ({why})");
            return Ok(());
        }
    };
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let kernel = context.load_module(compile_ptx(KERNEL)?)?.load_function("double_it")?;

    let reel = Reel::builder().device(device).history(Recording::all()).build()?;
    let memory = reel.cuda(0)?;
    let x = memory.copy_from(&[1.0_f32; 1000], &stream)?;
    let mut y = memory.zeros::<f32>(1000, &stream)?;
    {
        let (x, y) = (x.on(&stream), y.on_mut(&stream));
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&x).arg(&y).arg(&1000_u32);
        // SAFETY: the kernel takes two arrays and their length, and stays within it.
        unsafe { launch.launch(LaunchConfig::for_num_elems(1000))? };
    }
    println!("the sum is {}", stream.clone_dtoh(&y)?.iter().sum::<f32>());
    reel.save("cuda.pickle")?;
    println!("wrote cuda.pickle; drop it on https://pytorch.org/memory_viz");
    Ok(())
}
