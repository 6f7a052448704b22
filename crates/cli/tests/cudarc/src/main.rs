//! Allocates on a GPU through cudarc, and prints a line for each block that it has at its end: address and bytes.

use cudarc::driver::CudaContext;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    for mib in 1..=5_usize {
        // SAFETY: the memory is never read.
        let block = unsafe { stream.alloc::<u8>(mib << 20) }?;
        println!("block {} {}", block.leak(), mib << 20);
    }
    // SAFETY: as above.
    drop(unsafe { stream.alloc::<u8>(9 << 20) }?);
    // SAFETY: the context is current, and the memory is never read.
    let plain = unsafe { cudarc::driver::result::malloc_sync(3 << 20) }?;
    println!("block {plain} {}", 3 << 20);
    // The end of the context would take the memory away.
    std::mem::forget(context);
    Ok(())
}
