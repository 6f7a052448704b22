//! A kernel that keeps a stream busy until it is stopped.

use std::{
    ffi::{CString, c_void},
    sync::Arc,
};

use cudarc::driver::{CudaContext, CudaStream, result, sys};

/// Waits for a flag in the host's memory, and at most ten seconds of the GPU's clock.
const KERNEL: &str = r"
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 flag)
{
    .reg .u64 %address, %start, %now;
    .reg .u32 %value;
    .reg .pred %done;
    ld.param.u64 %address, [flag];
    mov.u64 %start, %globaltimer;
again:
    ld.volatile.global.u32 %value, [%address];
    setp.ne.u32 %done, %value, 0;
    @%done bra out;
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %start;
    setp.lt.u64 %done, %now, 10000000000;
    @%done bra again;
out:
    ret;
}
";

/// The kernel and its flag. The flag's page is never freed: a kernel may still read it.
#[derive(Debug)]
pub(crate) struct Spin {
    function: sys::CUfunction,
    flag: *mut u32,
}

// SAFETY: the flag is written with volatile stores and the handles are the driver's.
unsafe impl Send for Spin {}
// SAFETY: as above.
unsafe impl Sync for Spin {}

impl Spin {
    pub(crate) fn new(context: &Arc<CudaContext>) -> Spin {
        context.bind_to_thread().unwrap();
        let text = CString::new(KERNEL).unwrap();
        // SAFETY: the text is a module that ends in nul; the page is mapped for the device.
        unsafe {
            let module = result::module::load_data(text.as_ptr().cast()).unwrap();
            let function = result::module::get_function(module, CString::new("spin").unwrap()).unwrap();
            let flags = sys::CU_MEMHOSTALLOC_DEVICEMAP | sys::CU_MEMHOSTALLOC_PORTABLE;
            let flag = result::malloc_host(4096, flags).unwrap().cast::<u32>();
            flag.write_volatile(0);
            Spin { function, flag }
        }
    }

    /// Keeps a stream busy until [`Spin::stop`].
    pub(crate) fn start(&self, stream: &CudaStream) {
        let mut address = self.flag as u64;
        let mut arguments = [(&raw mut address).cast::<c_void>()];
        // SAFETY: the kernel takes one address, of memory that the device can read.
        unsafe {
            self.flag.write_volatile(0);
            result::launch_kernel(self.function, (1, 1, 1), (1, 1, 1), 0, stream.cu_stream(), &mut arguments)
                .unwrap();
        }
    }

    /// Ends every spinning kernel.
    pub(crate) fn stop(&self) {
        // SAFETY: the page is never freed.
        unsafe { self.flag.write_volatile(1) };
    }
}
