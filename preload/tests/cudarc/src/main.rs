//! Allocates on a GPU through cudarc, and prints each block as `block ADDRESS BYTES`.
#![forbid(unsafe_code)]

use std::error::Error;

use cudarc::driver::{CudaContext, DevicePtr};

fn main() -> Result<(), Box<dyn Error>> {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let mut kept = Vec::new();
    for n in 1..=10_usize {
        let block = stream.alloc_zeros::<f32>(n << 20)?;
        println!("block {} {}", block.device_ptr(&stream).0, n << 22);
        kept.push(block);
        drop(stream.alloc_zeros::<u8>(n << 10)?);
    }
    stream.synchronize()?;
    Ok(())
}
