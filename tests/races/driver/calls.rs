//! Calls about the driver, devices, contexts and kernels.

use std::ffi::{CStr, c_char, c_void};

use super::{
    context::{self, Context},
    memory::Access,
    state::{Answer, Driver, code, coded, finish, lock},
    streams::Spin,
};

/// Runs a call under the lock, unless a test asked for its failure.
pub(crate) fn call(name: &str, body: impl FnOnce(&mut Driver) -> Answer<()>) -> u32 {
    let mut driver = lock();
    coded(driver.failing(name).and_then(|()| body(&mut driver)))
}

/// Writes a result through a pointer of the caller.
pub(crate) fn give<T>(to: *mut T, value: T) {
    // SAFETY: callers of the driver pass pointers to values of the documented type.
    unsafe { to.write(value) }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_flags: u32) -> u32 {
    call("cuInit", |_| Ok(()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDriverGetVersion(version: *mut i32) -> u32 {
    give(version, 13_000);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetCount(count: *mut i32) -> u32 {
    call("cuDeviceGetCount", |driver| {
        give(count, driver.n_devices as i32);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGet(device: *mut i32, ordinal: i32) -> u32 {
    call("cuDeviceGet", |driver| {
        if ordinal < 0 || ordinal as usize >= driver.n_devices {
            return Err(code::INVALID_DEVICE);
        }
        give(device, ordinal);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetName(name: *mut c_char, length: i32, _device: i32) -> u32 {
    for (at, byte) in b"a driver without a GPU\0".iter().take(length.max(0) as usize).enumerate() {
        give(name.wrapping_add(at), *byte as c_char);
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, _device: i32) -> u32 {
    give(bytes, lock().device_bytes as usize);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetAttribute(value: *mut i32, attribute: i32, _device: i32) -> u32 {
    // Compute capability 9.0, virtual memory; no memory pools of the driver.
    give(value, [(75, 9), (102, 1)].iter().find(|(number, _)| *number == attribute).map_or(0, |(_, n)| *n));
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRetain(handle: *mut u64, device: i32) -> u32 {
    call("cuDevicePrimaryCtxRetain", |driver| {
        let primary = context::primary(device as usize);
        let fresh = Context { device: device as usize, is_primary: true, n_users: 0 };
        driver.contexts.entry(primary).or_insert(fresh).n_users += 1;
        give(handle, primary);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: i32) -> u32 {
    call("cuDevicePrimaryCtxRelease", |driver| {
        let primary = context::primary(device as usize);
        let found = driver.contexts.get_mut(&primary).ok_or(code::INVALID_CONTEXT)?;
        found.n_users -= 1;
        if found.n_users == 0 {
            driver.destroy_context(primary);
        }
        Ok(())
    })
}

impl Driver {
    /// Ends a context: its work is finished, its streams and events are gone.
    pub(crate) fn destroy_context(&mut self, handle: u64) {
        self.contexts.remove(&handle);
        let clocks: Vec<_> =
            self.lines.iter().filter(|line| line.context == handle).map(|line| line.clock.clone()).collect();
        clocks.iter().for_each(|clock| self.done.join(clock));
        let lines = &self.lines;
        self.streams.retain(|_, line| lines[*line].context != handle);
        self.events.retain(|_, event| event.context != handle);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxCreate_v4(
    handle: *mut u64,
    _parameters: *mut c_void,
    _flags: u32,
    device: i32,
) -> u32 {
    call("cuCtxCreate", |driver| {
        let new = driver.handle() | 0xc800_0000;
        driver.contexts.insert(new, Context { device: device as usize, is_primary: false, n_users: 1 });
        context::push(new);
        give(handle, new);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxDestroy_v2(handle: u64) -> u32 {
    call("cuCtxDestroy", |driver| {
        match driver.contexts.get(&handle) {
            Some(context) if !context.is_primary => driver.destroy_context(handle),
            _ => return Err(code::INVALID_CONTEXT),
        }
        if context::current() == handle {
            context::pop();
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxGetCurrent(handle: *mut u64) -> u32 {
    give(handle, context::current());
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(handle: u64) -> u32 {
    call("cuCtxSetCurrent", |_| {
        context::set_current(handle);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(handle: u64) -> u32 {
    call("cuCtxPushCurrent", |_| {
        context::push(handle);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPopCurrent_v2(handle: *mut u64) -> u32 {
    give(handle, context::pop().unwrap_or(0));
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxGetDevice(device: *mut i32) -> u32 {
    call("cuCtxGetDevice", |driver| {
        let found = driver.contexts.get(&context::current()).ok_or(code::INVALID_CONTEXT)?;
        give(device, found.device as i32);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> u32 {
    let mut clock = super::clock::Clock::default();
    let answer = call("cuCtxSynchronize", |driver| {
        driver.outside_captures()?;
        let current = driver.current()?;
        clock = driver.clock_of(current);
        Ok(())
    });
    finish(&clock);
    answer
}

impl Driver {
    /// Returns the clock that contains all work of a context.
    pub(crate) fn clock_of(&self, context: u64) -> super::clock::Clock {
        let mut clock = super::clock::Clock::default();
        let lines = self.lines.iter().filter(|line| line.context == context && line.capture.is_none());
        lines.for_each(|line| clock.join(&line.clock));
        clock
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuThreadExchangeStreamCaptureMode(mode: *mut u32) -> u32 {
    // SAFETY: callers pass a pointer to a mode.
    let new = unsafe { mode.read() };
    give(mode, context::exchange_capture_mode(new));
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorName(error: u32, text: *mut *const c_char) -> u32 {
    let names = [
        (code::INVALID_VALUE, c"CUDA_ERROR_INVALID_VALUE"),
        (code::OUT_OF_MEMORY, c"CUDA_ERROR_OUT_OF_MEMORY"),
        (code::INVALID_CONTEXT, c"CUDA_ERROR_INVALID_CONTEXT"),
        (code::INVALID_HANDLE, c"CUDA_ERROR_INVALID_HANDLE"),
        (code::ILLEGAL_ADDRESS, c"CUDA_ERROR_ILLEGAL_ADDRESS"),
    ];
    let name = names.iter().find(|(number, _)| *number == error).map_or(c"CUDA_ERROR", |(_, name)| *name);
    give(text, name.as_ptr());
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorString(error: u32, text: *mut *const c_char) -> u32 {
    cuGetErrorName(error, text)
}

/// Accepts any module: the only kernel that runs here is `spin`.
#[unsafe(no_mangle)]
pub extern "C" fn cuModuleLoadData(module: *mut u64, _image: *const c_void) -> u32 {
    give(module, 1);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleGetFunction(function: *mut u64, _module: u64, name: *const c_char) -> u32 {
    // SAFETY: callers pass a text that ends in nul.
    let name = unsafe { CStr::from_ptr(name) };
    give(function, 1);
    if name == c"spin" { 0 } else { code::INVALID_VALUE }
}

/// Launches the kernel `spin` of `tests/gpu/spin.rs`, which runs until the host sets a flag.
#[unsafe(no_mangle)]
pub extern "C" fn cuLaunchKernel(
    _function: u64,
    _grid_x: u32,
    _grid_y: u32,
    _grid_z: u32,
    _block_x: u32,
    _block_y: u32,
    _block_z: u32,
    _shared_bytes: u32,
    stream: u64,
    arguments: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> u32 {
    // SAFETY: `spin` takes one argument, an address.
    let flag = unsafe { arguments.read().cast::<u64>().read() };
    call("cuLaunchKernel", |driver| {
        let line = driver.line_for_work(stream)?;
        driver.operate(line, &[Access::new(flag, 4, false, "read of a flag")])?;
        let time = driver.lines[line].n_operations;
        driver.spins.push(Spin { line, time, flag });
        Ok(())
    })
}
